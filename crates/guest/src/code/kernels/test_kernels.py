"""The kernels without an agent: each test starts one as the agent does and speaks to it. Run by the guest room's tests."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def text(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


class Kernel:
    """A kernel, with its output in files."""

    def __init__(self, argv, program=None, env=None):
        self.control, far = socket.socketpair()
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.control.settimeout(30)
        self.process = subprocess.Popen(
            argv, stdin=far, stdout=self.out, stderr=self.err, start_new_session=True,
            env={**os.environ, "PYTHONFAULTHANDLER": "1", **(env or {})},
        )
        far.close()
        if program is not None:
            data = program.encode()
            self.control.sendall(b"%d\n" % len(data) + data)
        self.number = 0
        assert self.reply() == (0, 0, {}), self.said()

    def send(self, source, trace=""):
        self.number += 1
        data = textwrap.dedent(source).encode("utf-8", "surrogateescape")
        self.control.sendall(f"{self.number} {len(data)}{trace and ' ' + trace}\n".encode() + data)

    def take(self, count):
        data = b""
        while len(data) < count:
            try:
                piece = self.control.recv(count - len(data))
            except TimeoutError:
                # Python then tells where it is.
                self.process.send_signal(signal.SIGABRT)
                self.process.wait()
                raise AssertionError(f"the kernel is silent: {self.said()}") from None
            assert piece, self.said()
            data += piece
        return data

    def raw_reply(self):
        line = b""
        while not line.endswith(b"\n"):
            line += self.take(1)
        number, code, length = (int(word) for word in line.split())
        return number, code, self.take(length)

    def reply(self):
        number, code, body = self.raw_reply()
        return number, code, json.loads(body) if body else {}

    def said(self):
        """What was written since the last call."""
        parts = []
        for file in (self.out, self.err):
            # The kernel writes at the offset they share: read without moving it.
            start = getattr(self, f"seen{file.fileno()}", 0)
            data = os.pread(file.fileno(), 1 << 24, start)
            setattr(self, f"seen{file.fileno()}", start + len(data))
            parts.append(data.decode("utf-8", "replace"))
        return tuple(parts)

    def run(self, source, trace=""):
        self.send(source, trace)
        number, code, body = self.reply()
        assert number == self.number
        return code, body.get("results", []), body.get("error"), *self.said()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.control.close()
        self.out.close()
        self.err.close()


class Case(unittest.TestCase):
    def start(self):
        raise NotImplementedError

    def setUp(self):
        self.kernel = self.start()
        self.run_cell = self.kernel.run

    def tearDown(self):
        self.kernel.close()
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def interrupted(self, source):
        self.kernel.send(source)
        deadline = time.monotonic() + 30
        while "started" not in self.kernel.said()[0] and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(self.kernel.process.pid, signal.SIGINT)
        # An exception in a finalizer is ignored by Python, also this one; the agent asks twice for the same reason.
        while not select.select([self.kernel.control], [], [], 1)[0] and time.monotonic() < deadline:
            os.kill(self.kernel.process.pid, signal.SIGINT)
        return self.kernel.reply()


class Python(Case):
    def start(self):
        return Kernel([sys.executable, "-c", text("boot.py")], text("python.py") + text("warm.py"), {"PYTHONPATH": os.environ.get("STUBS", "")})

    def test_state_persists_and_the_last_expression_is_the_result(self):
        self.assertEqual(self.run_cell("x = 41\nprint('hi')"), (0, [], None, "hi\n", ""))
        self.assertEqual(self.run_cell("x + 1"), (0, [{"text/plain": "42"}], None, "", ""))
        self.assertEqual(self.run_cell("_ + 1")[1], [{"text/plain": "43"}])
        self.assertEqual(self.run_cell("None")[1], [])
        self.assertEqual(self.run_cell("x;  # quiet")[1], [])
        self.assertEqual(self.run_cell("'é;'")[1], [{"text/plain": "'é;'"}])
        self.assertEqual(self.run_cell("__name__")[1], [{"text/plain": "'__main__'"}])
        self.assertEqual(self.run_cell("")[:3], (0, [], None))

    def test_a_cell_sees_the_trace_it_belongs_to(self):
        for trace in ("00-aa-bb-01", "00-cc-dd-01"):
            self.assertEqual(self.run_cell("import os; print(os.environ['TRACEPARENT'])", trace), (0, [], None, trace + "\n", ""))

    def test_errors_have_a_traceback_of_the_cell_alone(self):
        code, results, error, out, err = self.run_cell("def f():\n    return 1 / 0\nprint('before')\nf()")
        self.assertEqual((code, results, out, err), (1, [], "before\n", ""))
        self.assertTrue(error.startswith("Traceback (most recent call last):\n  File \"<cell 1>\", line 4, in <module>"), error)
        self.assertIn("return 1 / 0", error)
        self.assertTrue(error.endswith("ZeroDivisionError: division by zero\n"), error)
        self.assertNotIn("<kernel>", error)
        error = self.run_cell("1 +")[2]
        self.assertIn("SyntaxError", error)
        self.assertNotIn("<kernel>", error)
        self.assertIn("RecursionError", self.run_cell("def g(): g()\ng()")[2])
        self.assertIn("null byte", self.run_cell("a = 1\0")[2])
        huge = self.run_cell("raise ValueError('x' * 10**6)")[2]
        self.assertLess(len(huge), 70_000)
        self.assertEqual(self.run_cell("1")[1], [{"text/plain": "1"}])

    def test_exit_is_a_code_and_not_the_end(self):
        for source, code in (("exit(3)", 3), ("import sys; sys.exit()", 0), ("raise SystemExit(7)", 7), ("quit()", 0)):
            self.assertEqual(self.run_cell(source)[:3], (code, [], None), source)
        self.assertEqual(self.run_cell("sys.exit('bye')"), (1, [], None, "", "bye\n"))
        self.assertEqual(self.run_cell("print('on')")[3], "on\n")

    def test_await_works_at_the_top_and_tasks_live_on(self):
        source = """
            import asyncio
            async def later():
                await asyncio.sleep(0.01)
                return 'later'
            task = asyncio.ensure_future(later()) if False else None
            await later()
        """
        self.assertEqual(self.run_cell(source)[:3], (0, [{"text/plain": "'later'"}], None))
        self.assertEqual(self.run_cell("task = asyncio.get_event_loop().create_task(later())")[0], 0)
        self.assertEqual(self.run_cell("await task")[1], [{"text/plain": "'later'"}])
        self.assertEqual(self.run_cell("asyncio.run(later())")[1], [{"text/plain": "'later'"}])
        error = self.run_cell("async def bad():\n    raise KeyError('k')\nawait bad()")[2]
        self.assertIn("KeyError: 'k'", error)
        self.assertNotIn("base_events", error)

    def test_values_tell_their_own_forms(self):
        source = """
            class Rich:
                def _repr_html_(self): return '<b>hi</b>'
                def _repr_png_(self): return b'\\x89PNG'
                def _repr_json_(self): return {'a': [1]}
                def _repr_svg_(self): return None
                def _repr_markdown_(self): raise ValueError('no')
                def __repr__(self): return 'Rich'
            Rich()
        """
        code, results, error, _, err = self.run_cell(source)
        self.assertEqual((code, error), (0, None))
        self.assertEqual(
            results,
            [{"text/html": "<b>hi</b>", "image/png": "iVBORw==", "application/json": '{"a": [1]}', "text/plain": "Rich"}],
        )
        self.assertIn("_repr_markdown_ failed", err)
        source = """
            class Bundle:
                def _repr_mimebundle_(self, include=None, exclude=None):
                    return {'text/plain': 'p', 'image/jpeg': b'j'}, {'meta': 1}
            display(Bundle(), 'text')
            display({'text/html': '<i>'}, raw=True)
            Bundle
        """
        results = self.run_cell(source)[1]
        self.assertEqual(results[:3], [{"text/plain": "p", "image/jpeg": "ag=="}, {"text/plain": "'text'"}, {"text/html": "<i>"}])
        self.assertIn("class '__main__.Bundle'", results[3]["text/plain"])
        magic = "from unittest.mock import MagicMock\nMagicMock()"
        self.assertEqual(list(self.run_cell(magic)[1][0]), ["text/plain"])
        self.assertIn("ValueError: broken", self.run_cell("class R:\n    def __repr__(self): raise ValueError('broken')\nR()")[2])

    def test_results_and_texts_are_limited_and_valid(self):
        code, results, _, _, _ = self.run_cell("'x' * 3_000_000")
        self.assertLess(len(results[0]["text/plain"]), 1_100_000)
        code, results, _, _, err = self.run_cell("for i in range(300): display(i)")
        self.assertEqual((code, len(results)), (0, 256))
        self.assertIn("44 results dropped", err)
        source = "class Big:\n    def _repr_png_(self): return b'x' * 9_000_000\n    def __repr__(self): return 'big'\nBig()"
        self.assertEqual(self.run_cell(source)[1], [{"text/plain": "big"}])
        self.assertEqual(self.run_cell("class S:\n    def __repr__(self): return '\\udc80'\nS()")[1], [{"text/plain": "\\udc80"}])
        self.assertEqual(self.run_cell("print('\\udc80')")[3], "\\udc80\n")

    def test_output_of_other_programs_comes_in_order(self):
        source = """
            import os, subprocess
            print('a'); subprocess.run(['echo', 'b']); os.system('echo c; echo d >&2'); os.write(1, b'e\\n'); print('f', end='')
        """
        self.assertEqual(self.run_cell(source)[3:], ("a\nb\nc\ne\nf", "d\n"))

    def test_closed_streams_are_opened_again(self):
        self.run_cell("import sys, os; sys.stdout.close(); os.close(2)")
        self.assertEqual(self.run_cell("import sys; print('out'); print('err', file=sys.stderr); os.system('echo sub')")[3:], ("out\nsub\n", "err\n"))

    def test_input_fails_clearly_and_stdin_is_empty(self):
        self.assertIn("input() is not available", self.run_cell("input('name? ')")[2])
        self.assertEqual(self.run_cell("import sys; sys.stdin.read()")[1], [{"text/plain": "''"}])

    def test_an_interrupt_ends_the_cell_and_keeps_the_state(self):
        for source in (
            "kept = 5\nprint('started')\nimport time\ntime.sleep(600)",
            "print('started')\nwhile True: pass",
            "import asyncio\nprint('started')\nawait asyncio.sleep(600)",
            "import subprocess\nprint('started')\nsubprocess.run(['sleep', '600'])",
        ):
            number, code, body = self.interrupted(source)
            self.assertEqual((number, code), (self.kernel.number, 1), source)
            self.assertIn("KeyboardInterrupt", body["error"])
        self.assertEqual(self.run_cell("kept")[1], [{"text/plain": "5"}])

    def test_an_interrupt_between_cells_is_nothing(self):
        self.run_cell("x = 1")
        for _ in range(20):
            os.kill(self.kernel.process.pid, signal.SIGINT)
            self.assertEqual(self.run_cell("x")[0] in (0, 1), True)
        time.sleep(0.05)
        self.assertEqual(self.run_cell("x")[1], [{"text/plain": "1"}])

    def test_a_forked_copy_does_not_speak(self):
        code, results, error, out, _ = self.run_cell("import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\nprint('ran')")
        self.assertEqual((code, results, error, out), (0, [], None, "ran\nran\n"))
        self.assertEqual(self.run_cell("1")[1], [{"text/plain": "1"}])

    def test_functions_of_cells_have_a_source(self):
        self.run_cell("def f():\n    return 'here'")
        self.assertIn("return 'here'", self.run_cell("import inspect; print(inspect.getsource(f))")[3])
        self.assertEqual(self.run_cell("import pickle; pickle.loads(pickle.dumps(f)) is f")[1], [{"text/plain": "True"}])


class Figures(Case):
    """With a stand-in for the plotting library, which need not be installed: what counts is when figures are taken and closed."""

    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        package = os.path.join(self.folder.name, "matplotlib")
        os.mkdir(package)
        for name, content in {
            "__init__": "",
            "_pylab_helpers": """
                class Gcf:
                    figs = {}
                    @classmethod
                    def get_all_fig_managers(cls): return list(cls.figs.values())
                    @classmethod
                    def destroy(cls, num): cls.figs.pop(num, None)
                    @classmethod
                    def destroy_fig(cls, figure):
                        for num, manager in list(cls.figs.items()):
                            if manager.canvas.figure is figure: del cls.figs[num]
            """,
            "figure": """
                class Figure:
                    def __init__(self): self.lines = []
                    def savefig(self, file, format, bbox_inches): file.write(repr(self.lines).encode())
                    def show(self): raise RuntimeError('no screen')
            """,
            "pyplot": """
                import os
                from types import SimpleNamespace
                from matplotlib._pylab_helpers import Gcf
                from matplotlib.figure import Figure
                assert os.environ['MPLBACKEND'] == 'agg'
                def figure():
                    made, num = Figure(), max(Gcf.figs, default=0) + 1
                    Gcf.figs[num] = SimpleNamespace(num=num, canvas=SimpleNamespace(figure=made))
                    return made
                def plot(*values):
                    if not Gcf.figs: figure()
                    list(Gcf.figs.values())[-1].canvas.figure.lines.append(values)
                    return ['line']
                def show(): raise RuntimeError('no screen')
            """,
        }.items():
            with open(os.path.join(package, name + ".py"), "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(content))
        return Kernel([sys.executable, "-c", text("boot.py")], text("python.py") + text("warm.py"), {"PYTHONPATH": self.folder.name, "MPLBACKEND": "agg"})

    def images(self, source):
        import base64

        code, results, error, _, _ = self.run_cell(source)
        self.assertEqual((code, error), (0, None))
        return [base64.b64decode(each["image/png"]).decode() if "image/png" in each else each["text/plain"] for each in results]

    def test_figures_are_results_when_shown_or_left_open(self):
        self.assertEqual(self.images("import matplotlib.pyplot as plt; plt.plot(1); plt.show()"), ["[(1,)]"])
        self.assertEqual(self.images("plt.plot(2)\nplt.show()\nplt.plot(3)\nplt.show()"), ["[(2,)]", "[(3,)]"])
        self.assertEqual(self.images("plt.plot(4)"), ["[(4,)]", "['line']"])
        self.assertEqual(self.images("fig = plt.figure()\nplt.plot(5)\nfig"), ["[(5,)]"])
        self.assertEqual(self.images("from matplotlib.pyplot import show\nf = plt.figure(); plt.plot(6); f.show(); show()"), ["[(6,)]"])
        self.assertEqual(self.images("1"), ["1"])


class Copy(Kernel):
    """What a warm kernel made. It is not our child."""

    def __init__(self, warm, mode, folder="/", env=None):
        self.control, far = socket.socketpair()
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.control.settimeout(30)
        self.process = warm.process
        variables = "".join(f"{name}={value}\0" for name, value in (env or {}).items())
        request = f"{mode}\0{folder}\0{variables}".encode()
        socket.send_fds(warm.control, [b"f"], [far.fileno(), self.out.fileno(), self.err.fileno()])
        warm.control.sendall(b"%d\n" % len(request) + request)
        far.close()
        self.number = 0
        number, code, pid = self.raw_reply()
        assert (number, code) == (0, 0), self.said()
        self.pid = int(pid)


class WarmPython(Case):
    def start(self):
        return Kernel([sys.executable, "-c", text("boot.py")], text("python.py") + text("warm.py"))

    def warmed(self, source):
        data = textwrap.dedent(source).encode()
        self.kernel.control.sendall(b"0 %d\n" % len(data) + data)
        number, code, body = self.kernel.raw_reply()
        return number, code, body.decode()

    def copy(self, *arguments, **named):
        made = Copy(self.kernel, *arguments, **named)
        for each in (made.control, made.out, made.err):
            self.addCleanup(each.close)
        return made

    def cell(self, kernel, source):
        kernel.send(source)
        number, code, body = kernel.reply()
        return (number, code, body.get("results", []), body.get("error"), *kernel.said())

    def test_a_copy_has_what_was_imported_and_nothing_else(self):
        self.assertEqual(self.warmed("import colorsys, random\nx = 1\nprint('noise')\nrandom.random()"), (0, 0, ""))
        one, two = self.copy("cells", "/usr", {"A": "é", "PATH": "/bin"}), self.copy("cells")
        source = "import sys, os; ('colorsys' in sys.modules, 'x' in globals(), os.getcwd(), sorted(os.environ))"
        shown = "(True, False, '/usr', ['A', 'MPLBACKEND', 'PATH'])"
        self.assertEqual(self.cell(one, source), (1, 0, [{"text/plain": shown}], None, "", ""))
        self.assertEqual(self.cell(one, "print(os.popen('echo $A').read()); os.getpid() == os.getpgid(0)")[2:5], ([{"text/plain": "True"}], None, "é\n\n"))
        drawn = "import random, tempfile; (random.random(), tempfile.mktemp())"
        self.assertNotEqual(self.cell(one, drawn)[2], self.cell(two, drawn)[2])
        self.assertIn("NameError", self.cell(two, "one")[3])

    def test_failures_are_told(self):
        number, code, error = self.warmed("import nothing_of_this_name")
        self.assertEqual((number, code), (0, 1))
        self.assertIn("nothing_of_this_name", error)

    def test_threads_are_refused(self):
        _, code, error = self.warmed("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()")
        self.assertEqual(code, 1)
        self.assertIn("threads", error)

    def once(self, source, env=None):
        kernel = self.copy("once", "/", env)
        ended = os.pidfd_open(kernel.pid)
        kernel.send(source)
        begun = kernel.reply()[:2]
        self.assertTrue(select.select([ended], [], [], 30)[0], "it ends")
        os.close(ended)
        return (begun, *kernel.said())

    def test_a_program_runs_as_with_a_new_interpreter(self):
        self.assertEqual(self.warmed("import colorsys")[1], 0)
        for source in (
            "print('out'); import sys; print('err', file=sys.stderr); 5",
            "def f():\n    1 / 0\nf()",
            "import sys; print(sys.argv, __name__, sorted({*globals()} - {'__annotations__'})); sys.exit('bye')",
            "print('display' in dir(__builtins__), input.__module__)\ninput()",
            "import atexit, os\natexit.register(lambda: print('last'))\nf = os.fdopen(os.dup(1), 'w')\nf.write('unflushed')",
            "import threading\nthreading.Timer(0.2, lambda: print('later')).start()",
        ):
            plain = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd="/", stdin=subprocess.DEVNULL)
            begun, out, err = self.once(source)
            self.assertEqual((begun, out), ((1, 0), plain.stdout), source)
            # A newer interpreter shows the lines of its own program.
            kept = lambda said: [line for line in said.splitlines() if not line.startswith("    ")]
            self.assertEqual(kept(err), kept(plain.stderr), source)
        self.assertEqual(self.once("1 +")[0], (1, 1))


class Bash(Case):
    def start(self):
        return Kernel(["bash", "-c", text("bash.sh")])

    def test_state_persists(self):
        self.assertEqual(self.run_cell("cd /usr; A=é; f() { echo \"f $1\"; }"), (0, [], None, "", ""))
        self.assertEqual(self.run_cell("pwd; f \"$A\"; echo bad >&2; cat; false"), (1, [], None, "/usr\nf é\n", "bad\n"))
        self.assertEqual(self.run_cell("if true; then\n echo two\nfi")[3], "two\n")
        self.assertEqual(self.run_cell("if")[0] != 0, True)
        self.assertEqual(self.run_cell("(exit 7)")[0], 7)


@unittest.skipUnless(shutil.which("node"), "there is no node here")
class Node(Case):
    def start(self):
        return Kernel(["node", "-e", text("boot.js")], text("node.js"))

    def test_state_persists_and_the_last_value_is_the_result(self):
        self.assertEqual(self.run_cell("const x = 41; let y = 'é'; console.log('hi')"), (0, [], None, "hi\n", ""))
        self.assertEqual(self.run_cell("x + 1")[1], [{"text/plain": "42"}])
        self.assertEqual(self.run_cell("({y, z: [1]})")[1], [{"text/plain": "{ y: 'é', z: [ 1 ] }", "application/json": '{"y":"é","z":[1]}'}])
        self.assertEqual(self.run_cell("await new Promise((done) => setTimeout(() => done(7), 20))")[1], [{"text/plain": "7"}])
        self.assertEqual(self.run_cell("const late = await Promise.resolve(8);\nconsole.log(late)")[3], "8\n")
        self.assertEqual(self.run_cell("late")[1], [{"text/plain": "8"}])
        self.assertEqual(self.run_cell("require('os').EOL")[1], [{"text/plain": "'\\n'"}])
        self.assertEqual(self.run_cell("function f() {\n  return 3;\n}\nf()")[1], [{"text/plain": "3"}])

    def test_a_cell_sees_the_trace_it_belongs_to(self):
        self.assertEqual(self.run_cell("console.log(process.env.TRACEPARENT)", "00-aa-bb-01")[3], "00-aa-bb-01\n")
        self.assertEqual(self.run_cell("console.log(process.env.TRACEPARENT)", "00-cc-dd-01")[3], "00-cc-dd-01\n")

    def test_errors_are_told(self):
        code, results, error, _, _ = self.run_cell("null.x")
        self.assertEqual((code, results), (1, []))
        self.assertIn("TypeError", error)
        self.assertIn("SyntaxError", self.run_cell("let = 1 +")[2])
        self.assertIn("late", self.run_cell("setTimeout(() => { throw new Error('late') }, 1); await new Promise(() => {})")[2])
        self.assertEqual(self.run_cell("process.exit(4)")[0], 4)
        self.assertEqual(self.run_cell("1")[1], [{"text/plain": "1"}])

    def test_a_warm_kernel_is_handed_out(self):
        for request in (b"require('zlib')", "cells\0/usr\0A=é\0".encode()):
            self.kernel.control.sendall(b"0 %d\n" % len(request) + request)
            self.assertEqual(self.kernel.reply(), (0, 0, {}))
        self.assertEqual(self.run_cell("[process.cwd(), process.env]")[1][0]["application/json"], '["/usr",{"A":"é"}]')
        drawn = json.loads(self.run_cell("Array.from({length: 1000}, Math.random)")[1][0]["application/json"])
        self.assertTrue(len(set(drawn)) == 1000 and 0 <= min(drawn) < 0.1 and 0.9 < max(drawn) < 1 and 0.4 < sum(drawn) / 1000 < 0.6)

    def test_an_interrupt_ends_the_cell(self):
        self.run_cell("var kept = 1")
        for source in ("console.log('started'); while (true) {}", "console.log('started'); await new Promise(() => setInterval(() => {}, 1000))"):
            self.assertEqual(self.interrupted(source)[1], 1)
        self.assertEqual(self.run_cell("kept")[1], [{"text/plain": "1"}])


if __name__ == "__main__":
    unittest.main()
