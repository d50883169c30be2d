# Written by scripts/write_sync.py from _async/platform.py. Do not edit.
"""Apps, functions and schedules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Generator, List, Optional

from .._core.call import EmptyCall, EventsCall, FormFile, JsonCall, RequestForm, segment
from .._wire import given, list_of
from . import flavour

if TYPE_CHECKING:
    from .client import PandaStack

Object = Dict[str, Any]


class _Resource:
    """Sends requests whose objects are plain dicts."""

    def __init__(self, client: PandaStack) -> None:
        self._client = client

    def _object(
        self,
        method: str,
        path: str,
        body: Any = None,
    ) -> Object:
        call: JsonCall[Optional[Object]] = JsonCall(method, path, json=body)
        return self._client.transport.json(call) or {}

    def _list(self, path: str, name: str = "items") -> List[Object]:
        answer = self._client.transport.json(JsonCall[Any]("GET", path))
        return list_of(answer, name, "items")

    def _delete(self, path: str) -> None:
        self._client.transport.empty(EmptyCall("DELETE", path))


class AppsAPI(_Resource):
    """Apps that are deployed from a Git repository."""

    def create(
        self,
        name: str,
        git_url: str,
        *,
        git_branch: Optional[str] = None,
        framework: Optional[str] = None,
        install_command: Optional[str] = None,
        build_command: Optional[str] = None,
        start_command: Optional[str] = None,
        root_directory: Optional[str] = None,
        port: Optional[int] = None,
        env: Optional[Dict[str, str]] = None,
        template: Optional[str] = None,
        cpu: Optional[int] = None,
        memory_mb: Optional[int] = None,
    ) -> Object:
        """Create an app. `deploy` starts it."""
        body = given(
            name=name,
            git_url=git_url,
            git_branch=git_branch,
            framework=framework,
            install_command=install_command,
            build_command=build_command,
            start_command=start_command,
            root_directory=root_directory,
            port=port,
            env=env,
            template=template,
            cpu=cpu,
            memory_mb=memory_mb,
        )
        return self._object("POST", "/v1/apps", body)

    def list(self) -> List[Object]:
        return self._list("/v1/apps")

    def get(self, app_id: str) -> Object:
        return self._object("GET", f"/v1/apps/{segment(app_id)}")

    def update(self, app_id: str, **fields: Any) -> Object:
        """Change fields of an app, by the names of `create`. It is not deployed again."""
        return self._object("PATCH", f"/v1/apps/{segment(app_id)}", fields)

    def delete(self, app_id: str) -> None:
        self._delete(f"/v1/apps/{segment(app_id)}")

    def deploy(self, app_id: str, *, git_ref: Optional[str] = None) -> Object:
        """Start a deployment. `deploy_logs` follows it."""
        body = {"git_ref": git_ref} if git_ref else None
        return self._object("POST", f"/v1/apps/{segment(app_id)}/deploys", body)

    def deployments(self, app_id: str) -> List[Object]:
        """The deployments of an app, newest first."""
        return self._list(f"/v1/apps/{segment(app_id)}/deploys")

    def deployment(self, app_id: str, deployment_id: str) -> Object:
        return self._object("GET", f"/v1/apps/{segment(app_id)}/deploys/{segment(deployment_id)}")

    def rollback(self, app_id: str) -> Object:
        """Go back to the deployment before."""
        return self._object("POST", f"/v1/apps/{segment(app_id)}/rollback")

    def deploy_logs(self, app_id: str, deployment_id: str) -> Generator[str, None, None]:
        """The lines of a deployment's log, until it has ended."""
        path = f"/v1/apps/{segment(app_id)}/deploys/{segment(deployment_id)}/logs"
        stream = self._client.transport.events(EventsCall("GET", path))
        with flavour.closing(stream) as events:
            for event in events:
                if event.event == "done":
                    return
                yield event.data

    def previews(self) -> List[Object]:
        """The apps that are previews of pull requests."""
        return [app for app in self.list() if app.get("is_preview")]

    def preview_repos(self) -> List[Object]:
        """The repositories whose pull requests get previews."""
        return self._list("/v1/preview-repos", "repos")

    def enable_preview_repo(
        self,
        github_repo_id: int,
        *,
        repo_full_name: Optional[str] = None,
    ) -> Object:
        body = given(github_repo_id=github_repo_id, repo_full_name=repo_full_name)
        return self._object("POST", "/v1/preview-repos", body)

    def disable_preview_repo(self, github_repo_id: int) -> None:
        self._delete(f"/v1/preview-repos/{segment(github_repo_id)}")

    def list_env(self, app_id: str) -> List[Object]:
        """The environment variables of an app. Values of secrets are not shown."""
        return self._list(f"/v1/apps/{segment(app_id)}/env", "env")

    def set_env(
        self,
        app_id: str,
        key: str,
        value: str,
        *,
        secret: bool = False,
        scope: str = "all",
    ) -> Object:
        body = {"value": value, "secret": secret, "scope": scope}
        return self._object("PUT", f"/v1/apps/{segment(app_id)}/env/{segment(key)}", body)

    def unset_env(self, app_id: str, key: str) -> None:
        self._delete(f"/v1/apps/{segment(app_id)}/env/{segment(key)}")

    def import_env(
        self,
        app_id: str,
        dotenv: str,
        *,
        secret: bool = False,
        scope: str = "all",
    ) -> Object:
        """Set the variables of a text with lines such as `KEY=value`."""
        body = {"dotenv": dotenv, "secret": secret, "scope": scope}
        return self._object("POST", f"/v1/apps/{segment(app_id)}/env/import", body)

    def add_domain(self, app_id: str, domain: str) -> Object:
        """Serve an app under a domain of yours. The answer lists the DNS records to make."""
        return self._object("POST", f"/v1/apps/{segment(app_id)}/domains", {"domain": domain})

    def domains(self, app_id: str) -> List[Object]:
        return self._list(f"/v1/apps/{segment(app_id)}/domains", "domains")

    def get_domain(self, app_id: str, domain: str) -> Object:
        return self._object("GET", f"/v1/apps/{segment(app_id)}/domains/{segment(domain)}")

    def remove_domain(self, app_id: str, domain: str) -> None:
        self._delete(f"/v1/apps/{segment(app_id)}/domains/{segment(domain)}")

    def list_preview_env(self, github_repo_id: int) -> List[Object]:
        """The environment variables of all previews of a repository."""
        return self._list(f"/v1/repos/{segment(github_repo_id)}/preview-env", "env")

    def set_preview_env(
        self,
        github_repo_id: int,
        key: str,
        value: str,
        *,
        secret: bool = False,
    ) -> Object:
        path = f"/v1/repos/{segment(github_repo_id)}/preview-env/{segment(key)}"
        return self._object("PUT", path, {"value": value, "secret": secret})

    def unset_preview_env(self, github_repo_id: int, key: str) -> None:
        self._delete(f"/v1/repos/{segment(github_repo_id)}/preview-env/{segment(key)}")

    def import_preview_env(
        self,
        github_repo_id: int,
        dotenv: str,
        *,
        secret: bool = False,
    ) -> Object:
        path = f"/v1/repos/{segment(github_repo_id)}/preview-env/import"
        return self._object("POST", path, {"dotenv": dotenv, "secret": secret})


class FunctionsAPI(_Resource):
    """Functions: code that runs when it is called."""

    def create(
        self,
        name: str,
        runtime: str,
        file_path: str,
        *,
        entrypoint: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        template: str = "code-interpreter",
        public: bool = False,
    ) -> Object:
        """Create a function of one file. `runtime` is `python` or `nodejs`."""
        import base64

        path = Path(file_path)
        body = given(
            name=name,
            runtime=runtime,
            entrypoint=entrypoint or path.name,
            code=base64.b64encode(path.read_bytes()).decode("ascii"),
            template=template,
            public=public,
            env=env,
        )
        return self._object("POST", "/v1/functions", body)

    def deploy(
        self,
        name: str,
        runtime: str,
        path: str,
        *,
        entrypoint: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        template: str = "code-interpreter",
        public: bool = False,
    ) -> Object:
        """Deploy a file or directory, as a new function or a new version of it."""
        from .._bundles import make_bundle

        start = entrypoint or ("handler.js" if runtime == "nodejs" else "handler.py")
        bundle = flavour.in_thread(lambda: make_bundle(Path(path), start))
        function = next((one for one in self.list() if one.get("name") == name), None)
        if function is None:
            body = given(
                name=name,
                runtime=runtime,
                entrypoint=start,
                template=template,
                public=public,
                env=env,
            )
            function = self._object("POST", "/v1/functions", body)
        return self.deploy_bundle(str(function["id"]), bundle, start)

    def deploy_bundle(
        self,
        function_id: str,
        bundle: bytes,
        entrypoint: Optional[str] = None,
    ) -> Object:
        """Deploy a packed directory (tar.gz)."""
        form = RequestForm(given(entrypoint=entrypoint), [FormFile("bundle", bundle)])
        call = JsonCall[Object]("POST", f"/v1/functions/{segment(function_id)}/deploy", form=form)
        return self._client.transport.json(call)

    def metrics(self, function_id: str, period_hours: int = 24) -> Object:
        """Number of calls, share of errors, and durations."""
        call = JsonCall[Object](
            "GET",
            f"/v1/functions/{segment(function_id)}/metrics",
            query={"period": period_hours},
        )
        return self._client.transport.json(call)

    def list(self) -> List[Object]:
        return self._list("/v1/functions")

    def get(self, function_id: str) -> Object:
        return self._object("GET", f"/v1/functions/{segment(function_id)}")

    def update(
        self,
        function_id: str,
        *,
        name: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        public: Optional[bool] = None,
        entrypoint: Optional[str] = None,
    ) -> Object:
        body = given(name=name, env=env, public=public, entrypoint=entrypoint)
        return self._object("PATCH", f"/v1/functions/{segment(function_id)}", body)

    def delete(self, function_id: str) -> None:
        self._delete(f"/v1/functions/{segment(function_id)}")

    def invoke(self, function_id: str, *, input: Optional[Any] = None) -> Object:
        """Call a function and return its run, also if its code failed."""
        body = given(input=input)
        return self._object("POST", f"/v1/functions/{segment(function_id)}/invoke", body)

    def trigger(self, function_id: str, *, input: Optional[Any] = None) -> Object:
        """The same as `invoke`."""
        return self.invoke(function_id, input=input)

    def runs(self, function_id: str) -> List[Object]:
        """The last runs, newest first."""
        return self._list(f"/v1/functions/{segment(function_id)}/runs")


class SchedulesAPI(_Resource):
    """Schedules: functions that run at certain times."""

    def create(
        self,
        name: str,
        function_id: str,
        cron: str,
        *,
        paused: bool = False,
    ) -> Object:
        """Run a function by a cron rule of five fields, in UTC."""
        body = {"name": name, "function_id": function_id, "cron": cron, "paused": paused}
        return self._object("POST", "/v1/schedules", body)

    def list(self) -> List[Object]:
        return self._list("/v1/schedules")

    def get(self, schedule_id: str) -> Object:
        return self._object("GET", f"/v1/schedules/{segment(schedule_id)}")

    def update(
        self,
        schedule_id: str,
        *,
        cron: Optional[str] = None,
        paused: Optional[bool] = None,
    ) -> Object:
        body = given(cron=cron, paused=paused)
        return self._object("PATCH", f"/v1/schedules/{segment(schedule_id)}", body)

    def delete(self, schedule_id: str) -> None:
        self._delete(f"/v1/schedules/{segment(schedule_id)}")

    def trigger(self, schedule_id: str) -> Object:
        """Run the function now."""
        return self._object("POST", f"/v1/schedules/{segment(schedule_id)}/trigger", {})

    def runs(self, schedule_id: str) -> List[Object]:
        """The last runs, newest first."""
        return self._list(f"/v1/schedules/{segment(schedule_id)}/runs")
