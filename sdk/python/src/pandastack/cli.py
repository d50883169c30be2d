"""`python -m pandastack`: template builds, and the worker for Claude Managed Agents.

The command line for everything else is the program `pandastack`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Optional, Sequence

from ._version import __version__
from .exceptions import PandastackError, TemplateBuildError

_FAILED = 1
_USAGE = 2
_INTERRUPTED = 130

_CMA_SETTINGS = (
    ("--environment-id", "environment_id", str, "id of the environment"),
    ("--environment-key", "environment_key", str, "key of the environment"),
    ("--token", "pandastack_token", str, "PandaStack API key"),
    ("--api", "pandastack_api", str, "URL of the PandaStack server"),
    ("--template", "template", str, "template of the sandboxes; claude-agent by default"),
    ("--outputs-dir", "outputs_dir", Path, "where output files are saved; outputs by default"),
    ("--worker-id", "worker_id", str, "name of this worker"),
    ("--ttl-seconds", "sandbox_ttl_seconds", int, "idle limit of a sandbox; 3600 by default"),
    ("--max-session-seconds", "max_session_seconds", int, "longest run; 3600 by default"),
)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run a command and return its exit code: 0, 1 (failed), 2 (usage) or 130 (interrupted)."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if not hasattr(arguments, "run"):
        parser.print_help()
        return _FAILED
    try:
        code: int = arguments.run(arguments)
        return code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return _USAGE
    except subprocess.CalledProcessError as error:
        print(f"error: docker failed with exit code {error.returncode}", file=sys.stderr)
        return _FAILED
    except PandastackError as error:
        print(f"error: {error}", file=sys.stderr)
        return _FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pandastack", description=__doc__)
    parser.add_argument("--version", action="version", version=f"pandastack {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")

    cma = commands.add_parser("cma", help="run a worker for Claude Managed Agents")
    for flag, name, kind, text in _CMA_SETTINGS:
        cma.add_argument(flag, dest=name, type=kind, help=text)
    cma.add_argument(
        "--on-idle",
        choices=["hibernate", "running", "delete"],
        help="what happens to a sandbox between turns; hibernate by default",
    )
    cma.set_defaults(run=_cma)

    template = commands.add_parser("template", help="build templates")
    actions = template.add_subparsers(metavar="ACTION", required=True)

    build = actions.add_parser("build", help="build a template from a Dockerfile, on the server")
    _add_build_flags(build)
    build.set_defaults(run=_build)

    push = actions.add_parser("push", help="build with your local docker, push, and register")
    _add_build_flags(push)
    push.add_argument("--platform", default="linux/amd64", help="platform of the image")
    push.set_defaults(run=_push)

    logs = actions.add_parser("build-logs", help="show the log of a build")
    logs.add_argument("build_id")
    logs.add_argument("--follow", action="store_true", help="until the build has ended")
    logs.set_defaults(run=_build_logs)
    return parser


def _add_build_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", required=True, help="name of the template")
    parser.add_argument("-f", "--dockerfile", default="Dockerfile", help="path of the Dockerfile")
    parser.add_argument("--context", help="directory that COPY and ADD read from")
    parser.add_argument("--size-mb", type=int, default=1024, help="size of the disk")
    parser.add_argument("--cpu", type=int, help="number of CPUs")
    parser.add_argument("--memory-mb", type=int, help="memory")
    parser.add_argument("--no-wait", dest="wait", action="store_false", help="return at once")


def _cma(arguments: argparse.Namespace) -> int:
    from .cma import CmaConfig, Worker

    names = [name for _, name, _, _ in _CMA_SETTINGS] + ["on_idle"]
    config = CmaConfig.from_env(**{name: getattr(arguments, name) for name in names})
    missing = config.missing_required()
    if missing:
        print(f"error: set {', '.join(missing)}, or see --help", file=sys.stderr)
        return _USAGE
    Worker(config).run()
    return 0


def _build(arguments: argparse.Namespace) -> int:
    from . import templates

    if not Path(arguments.dockerfile).is_file():
        raise FileNotFoundError(f"there is no Dockerfile at {arguments.dockerfile!r}")
    build = templates.build_from_dockerfile(
        arguments.name,
        arguments.dockerfile,
        context_dir=arguments.context,
        size_mb=arguments.size_mb,
        cpu=arguments.cpu,
        memory_mb=arguments.memory_mb,
    )
    if arguments.wait:
        for line in templates.build_logs(build.id):
            _log(line)
        ended = templates.wait_for_build(build.id)
        if ended.is_failed:
            raise TemplateBuildError(ended.error or "the build failed", build=ended)
        _log(f"template {arguments.name} is ready")
    print(build.id)
    return 0


def _push(arguments: argparse.Namespace) -> int:
    from . import templates

    build = templates.push(
        arguments.name,
        arguments.dockerfile,
        context=arguments.context,
        platform=arguments.platform,
        size_mb=arguments.size_mb,
        cpu=arguments.cpu,
        memory_mb=arguments.memory_mb,
        on_log=_log,
        wait=arguments.wait,
    )
    print(build.id)
    return 0


def _build_logs(arguments: argparse.Namespace) -> int:
    from . import templates

    for line in templates.build_logs(arguments.build_id, follow=arguments.follow):
        print(line)
    return 0


def _log(line: str) -> None:
    print(line, file=sys.stderr)
