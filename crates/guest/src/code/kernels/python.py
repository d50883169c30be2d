"""The Python kernel of a code context: runs cells one after the other and keeps their state.

Standard library only, Python 3.9 or newer. It is started by boot.py, which reads this text from the control socket and gives
`control` (its descriptor), `take` and `line` (which read from it). Spoken there, all of it counted in bytes:

    agent:  "<number> <length>[ <trace>]\n" and so much source text         kernel:  "<number> <exit> <length>\n" and so much JSON

The first thing said is the kernel's "0 0 0\n": it is ready. The JSON is {"error"?: text, "results"?: [{mime: text}]}. What
cells print is not its business: descriptors 1 and 2 are pipes to the agent, which also limits them.

It goes on in warm.py. The agent sends both as one text.
"""

import ast
import builtins
import linecache
import os
import signal
import sys
import traceback
import types

BODY_BYTES_MAX = 12 * 1024 * 1024
RESULTS_BYTES_MAX = 8 * 1024 * 1024
RESULTS_MAX = 256
TEXT_BYTES_MAX = 1024 * 1024
ERROR_BYTES_MAX = 64 * 1024
SOURCES_MAX = 1000

COROUTINE = 0x80  # inspect.CO_COROUTINE, without the import
FORMS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_json_", "application/json"),
    ("_repr_latex_", "text/latex"),
)

main = types.ModuleType("__main__")
pid = os.getpid()
running = False  # whether an interrupt may raise
results = []
results_bytes = 0
dropped = 0
loop = None
plain = []  # what a kernel changed: (owner, name, value)


# Control


def answer(number, exit_code, body=b""):
    data = b"%d %d %d\n" % (number, exit_code, len(body)) + body
    while data:
        data = data[os.write(control, data):]


def on_interrupt(_signal, _frame):
    # Late ones, for a cell that has just ended, must not hit the kernel itself.
    if running:
        raise KeyboardInterrupt


# Values


def clean(text):
    """Gives text that is valid UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def as_text(mime, value):
    """Gives a form's value as the text that goes out, or None if there is none."""
    if isinstance(value, tuple) and value:
        value = value[0]  # the rest is metadata
    if value is None:
        return None
    if isinstance(value, (bytes, bytearray, memoryview)):
        from base64 import b64encode

        return b64encode(value).decode("ascii")
    if isinstance(value, str):
        return clean(value)
    from json import dumps

    return dumps(value, default=str)


def complain(text):
    try:
        sys.stderr.write(text + "\n")
    except Exception:
        pass


def bundle(value):
    """Gives every form of a value that it knows of itself."""
    forms = {}
    figure = figure_png(value)
    if figure is not None:
        return figure
    kind = type(value)
    if kind is not type:
        # Looked up in the class: objects that answer to any name would otherwise claim every form.
        whole = getattr(kind, "_repr_mimebundle_", None)
        if whole is not None:
            try:
                given = whole(value, include=None, exclude=None)
                given = given[0] if isinstance(given, tuple) else given
                forms.update(given or {})
            except Exception as error:
                complain(f"_repr_mimebundle_ failed: {error!r}")
        for name, mime in FORMS:
            method = getattr(kind, name, None)
            if method is None or mime in forms:
                continue
            try:
                forms[mime] = method(value)
            except Exception as error:
                complain(f"{name} failed: {error!r}")
    if "text/plain" not in forms:
        forms["text/plain"] = repr(value)
    texts = {}
    for mime, form in forms.items():
        try:
            text = as_text(mime, form)
        except Exception as error:
            complain(f"a result's {mime} is unusable: {error!r}")
            continue
        if text is not None and isinstance(mime, str):
            texts[clean(mime)] = text
    return texts


def keep(forms):
    """Adds a result, as much of it as there is room for."""
    global results_bytes, dropped
    kept = {}
    for mime, text in forms.items():
        if mime.startswith("text/") and len(text) > TEXT_BYTES_MAX:
            text = text[:TEXT_BYTES_MAX] + "\n[result truncated]"
        size = len(text.encode("utf-8"))
        if results_bytes + size > RESULTS_BYTES_MAX:
            dropped += 1
            continue
        results_bytes += size
        kept[mime] = text
    if kept and len(results) < RESULTS_MAX:
        results.append(kept)
    elif kept:
        dropped += 1


def display(*values, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False, **_rest):
    """Shows values among the results of this cell."""
    for value in values:
        if raw and isinstance(value, dict):
            keep({clean(str(mime)): as_text(str(mime), form) or "" for mime, form in value.items()})
        else:
            keep(bundle(value))


def no_input(_prompt=""):
    raise RuntimeError("input() is not available: a cell has no standard input")


# Figures


def figure_png(value):
    """Gives a figure's image; None for anything else."""
    figures = sys.modules.get("matplotlib.figure")
    if figures is None or not isinstance(value, getattr(figures, "Figure", ())):
        return None
    from base64 import b64encode
    from io import BytesIO

    image = BytesIO()
    value.savefig(image, format="png", bbox_inches="tight")
    forget_figure(value)
    return {"image/png": b64encode(image.getvalue()).decode("ascii"), "text/plain": clean(repr(value))}


def forget_figure(figure):
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is not None:
        helpers.Gcf.destroy_fig(figure)


def show_figures(*_arguments, **_named):
    """Shows and closes every open figure, as a notebook does."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None:
        return
    for manager in helpers.Gcf.get_all_fig_managers():
        try:
            keep(figure_png(manager.canvas.figure) or {})
        finally:
            helpers.Gcf.destroy(manager.num)


def prepare_pyplot(module):
    plain.append((module, "show", module.show))
    plain.append((module.Figure, "show", module.Figure.show))
    module.show = show_figures
    module.Figure.show = lambda figure, *_arguments, **_named: display(figure)


def prepare_display(module):
    module.display = display


class Prepare:
    """Changes a few modules right after they were imported: there is no screen here, but there are results."""

    wanted = {
        "matplotlib.pyplot": prepare_pyplot,
        "IPython.display": prepare_display,
        "IPython.core.display_functions": prepare_display,
    }

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        change = cls.wanted.pop(name, None)
        if change is None:
            return None
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is None or spec.loader is None:
            cls.wanted[name] = change
            return spec
        load = spec.loader.exec_module

        def load_and_change(module):
            try:
                load(module)
            except BaseException:
                cls.wanted[name] = change
                raise
            change(module)

        spec.loader.exec_module = load_and_change
        return spec


# Cells


def finish(code):
    """Runs compiled code; awaits it if it awaits."""
    global loop
    if not code.co_flags & COROUTINE:
        return eval(code, main.__dict__)
    import asyncio

    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
    task = loop.create_task(eval(code, main.__dict__))
    try:
        return loop.run_until_complete(task)
    except BaseException:
        if not task.done():
            task.cancel()
            try:
                loop.run_until_complete(task)
            except BaseException:
                pass
        raise


def is_silenced(source, expression):
    """Tells whether the last expression is followed by a semicolon, which means that nobody wants to see it."""
    lines = source.splitlines()
    rest = lines[expression.end_lineno - 1].encode("utf-8")[expression.end_col_offset:]
    return rest.lstrip().startswith(b";")


def run(source, name):
    """Runs a cell and keeps the value of a trailing expression."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(source, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    if tree.body:
        finish(compile(tree, name, "exec", flags, dont_inherit=True))
    if last is None:
        show_figures()
        return
    value = finish(compile(ast.Expression(last.value), name, "eval", flags, dont_inherit=True))
    show = value is not None and not is_silenced(source, last)
    forms = None
    if show:
        builtins._ = value
        forms = bundle(value)
    show_figures()
    if forms is not None:
        keep(forms)


def formatted(error):
    """Gives the traceback of a cell's error, without our own frames at its top."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell "):
        trace = trace.tb_next
    try:
        text = "".join(traceback.format_exception(type(error), error, trace))
    except Exception:
        text = f"{type(error).__name__}: its description failed\n"
    text = clean(text)
    if len(text) > ERROR_BYTES_MAX:
        half = ERROR_BYTES_MAX // 2
        text = text[:half] + "\n[traceback truncated]\n" + text[-half:]
    return text


def exit_code(error):
    """Gives what a process would end with."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return max(-(2**31), min(2**31 - 1, error.code))
    complain(str(error.code))
    return 1


def remember(source, name, number):
    """Keeps a cell's source for tracebacks and `inspect`; the oldest are forgotten."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    linecache.cache.pop(f"<cell {number - SOURCES_MAX}>", None)


def guarded(source, number):
    """Runs a cell whatever it does, and gives its exit code and error."""
    global running
    name = f"<cell {number}>"
    try:
        running = True
        remember(source, name, number)
        run(source, name)
        running = False
    except SystemExit as error:
        running = False
        return exit_code(error), None
    except BaseException as error:
        running = False
        return 1, formatted(error)
    finally:
        running = False
    return 0, None


def serve_cell(number, source):
    global results_bytes, dropped
    results.clear()
    results_bytes = dropped = 0
    signal.signal(signal.SIGINT, on_interrupt)
    restore_streams()
    try:
        text = source.decode("utf-8", "replace")
        code, error = guarded(text, number)
    except KeyboardInterrupt as late:
        code, error = 1, formatted(late)
    if os.getpid() != pid:
        # A copy made by fork ran to the end of the cell. Only the original speaks for it.
        flush()
        os._exit(code & 0xFF)
    if dropped:
        complain(f"[{dropped} results dropped: a cell has room for {RESULTS_BYTES_MAX} bytes of them]")
    flush()
    answer(number, code, body(error))


def body(error):
    if error is None and not results:
        return b""
    from json import dumps

    content = {"results": results} if error is None else {"results": results, "error": error}
    data = dumps(content, ensure_ascii=False).encode("utf-8")
    if len(data) > BODY_BYTES_MAX:
        complain("[the results are too large and were dropped]")
        flush()
        data = dumps({"error": error} if error else {}, ensure_ascii=False).encode("utf-8")
    return data


# Streams


def flush():
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except Exception:
            pass


def restore_streams():
    """Opens what an earlier cell closed: the agent reads these, and the next cell expects them."""
    for number, spare, name in ((1, spare_out, "stdout"), (2, spare_err, "stderr")):
        try:
            same = os.fstat(number)[1:3] == os.fstat(spare)[1:3]
        except OSError:
            same = False
        if not same:
            os.dup2(spare, number)
        stream = getattr(sys, name)
        if getattr(stream, "closed", False) or stream is None:
            fresh = open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
            setattr(sys, name, fresh)
            setattr(sys, f"__{name}__", fresh)


def prepare():
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    sys.argv = [""]
    sys.path[0:1] = [""]
    main.__dict__.update({"__builtins__": builtins, "__name__": "__main__"})
    sys.modules["__main__"] = main
    builtins.display = display
    plain.append((builtins, "input", builtins.input))
    builtins.input = no_input
    os.environ.setdefault("MPLBACKEND", "agg")
    sys.meta_path.insert(0, Prepare)
    signal.signal(signal.SIGINT, on_interrupt)
