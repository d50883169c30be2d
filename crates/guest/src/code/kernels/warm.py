# Warm kernels, and the loop that serves requests. The second part of python.py.
#
# Request 0 makes this a warm kernel. It runs the code, answers, and then runs no cell itself: it
# makes a copy of itself for each request, which is a byte with three descriptors (control, 1, 2),
# "<length>\n", and MODE, folder and variables with a NUL after each. A copy says "0 0 <length>\n"
# and its process id. In the mode `cells` it goes on as any kernel. In the mode `once` its only cell
# runs as with `python3 -c`: "1 0 0\n" says that it begins. In the mode `spare` it runs the code of
# one request 0, so that it has its own pages, and waits for a second one, of the mode `cells`.


def warm_up(source):
    """Runs the code of a recipe in a namespace of its own. Gives its error."""
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    name = "<cell 0>"
    try:
        remember(source, name, 0)
        exec(compile(source, name, "exec", dont_inherit=True), {"__name__": "warm", "__builtins__": builtins})
        forget_cells()
    except BaseException as error:
        return formatted(error)
    finally:
        linecache.cache.pop(name, None)
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    threads = sys.modules.get("threading")
    if threads is not None and threads.active_count() > 1:
        return "the code left threads running, which copies of this process would not have\n"
    return None


def forget_cells():
    """Leaves nothing of the code that ran but what it imported."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is not None:
        helpers.Gcf.destroy_all()
    results.clear()


packages = {}


def files_of_packages():
    """Gives the files of imported packages that may be installed anew, and what tells that they were."""
    marks = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and "." not in name and "-packages" in path:
            marks[path] = mark_of(path)
    return marks


def mark_of(path):
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def are_packages_the_same():
    return all(mark_of(path) == mark for path, mark in packages.items())


def keep_warm(source):
    """Warms up and makes copies for ever. Returns in a copy, with its mode."""
    error = warm_up(source)
    flush()
    if error is not None:
        answer(0, 1, clean(error).encode("utf-8"))
        return "cells"
    import gc
    import socket

    packages.update(files_of_packages())
    agent = socket.socket(fileno=os.dup(control))
    gc.collect()
    gc.freeze()  # or the collector of each copy would write to every page
    answer(0, 0)
    while True:
        byte, descriptors, _, _ = socket.recv_fds(agent, 1, 3)
        if not byte:
            os._exit(0)
        request = take(int(line())).split(b"\0")
        if len(descriptors) == 3 and are_packages_the_same():
            try:
                first = os.fork()
            except OSError:
                first = None  # closing the descriptors says it
            if first == 0:
                # A copy of a copy, so that it becomes the agent's child.
                if os.fork() != 0:
                    os._exit(0)
                agent.close()
                take_over(descriptors)
                return settle(request)
            if first is not None:
                os.waitpid(first, 0)
        for descriptor in descriptors:
            os.close(descriptor)


def wait_as_spare(source):
    """Does what first cells do, and waits for the owner. Gives the mode."""
    error = warm_up(source)
    flush()
    answer(0, 0 if error is None else 1, clean(error or "").encode("utf-8"))
    _, length, *_ = line().decode().split()
    request = take(int(length)).split(b"\0")
    if not are_packages_the_same():
        answer(0, 1)
        os._exit(0)
    return settle(request)


def take_over(descriptors):
    """Gives a copy streams of its own."""
    os.setsid()
    near, out, err = descriptors
    os.dup2(near, control, inheritable=False)
    for source, targets in ((out, (1, spare_out)), (err, (2, spare_err))):
        os.dup2(source, targets[0])
        os.dup2(source, targets[1], inheritable=False)
    for descriptor in descriptors:
        os.close(descriptor)


def settle(request):
    """Makes a copy what a new process would be. Gives the mode."""
    global pid
    mode, folder, *variables = request[:-1]
    wanted = dict(variable.split(b"=", 1) for variable in variables)
    for name in [name for name in os.environb if name not in wanted]:
        del os.environb[name]
    os.environb.update(wanted)
    try:
        os.chdir(folder)
    except OSError:
        os.chdir("/")
    # `random`, `tempfile`, `uuid` and OpenSSL notice the new process id; numpy's own generator does not.
    generators = sys.modules.get("numpy.random")
    if generators is not None:
        generators.seed()
    pid = os.getpid()
    if mode == b"cells":
        os.environ.setdefault("MPLBACKEND", "agg")
    answer(0, 0, b"%d" % pid)
    return mode.decode()


def run_once(source):
    """Runs a program as `python3 -c` does, and ends this process."""
    try:
        code = compile(source, "<string>", "exec", dont_inherit=True)
    except BaseException:
        # The agent starts an interpreter, which says what is wrong in its own words.
        answer(1, 1)
        os._exit(1)
    become_plain()
    answer(1, 0)
    for descriptor in (control, spare_out, spare_err):
        os.close(descriptor)
    end = 0
    try:
        exec(code, main.__dict__)
    except SystemExit as error:
        end = exit_code(error)
    except BaseException as error:
        end = 130 if isinstance(error, KeyboardInterrupt) else 1
        error = error.with_traceback(error.__traceback__.tb_next)  # without this frame
        sys.excepthook(type(error), error, error.__traceback__)
    leave(end)


def become_plain():
    """Takes back what a kernel changed."""
    from importlib.machinery import BuiltinImporter

    for owner, name, value in plain:
        setattr(owner, name, value)
    del builtins.display
    sys.meta_path.remove(Prepare)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout.reconfigure(errors="surrogateescape", line_buffering=False)
    sys.argv = ["-c"]
    main.__dict__.update({"__doc__": None, "__package__": None, "__spec__": None, "__loader__": BuiltinImporter})


def leave(end):
    """Ends as an interpreter does, but leaves the modules alone: taking them down would copy every page."""
    import atexit
    import gc

    try:
        threads = sys.modules.get("threading")
        if threads is not None:
            threads._shutdown()
        atexit._run_exitfuncs()
        flush()
        # Closes the program's files.
        main.__dict__.clear()
        gc.collect()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    flush()
    os._exit(end & 0xFF)


prepare()
spare_out, spare_err = os.dup(1), os.dup(2)
answer(0, 0)
# What the first cell needs is read while nobody waits.
import json  # noqa: E402,F401

mode = "cells"
while True:
    number, length, *trace = line().decode().split()
    source = take(int(length))
    for place in trace:
        os.environ["TRACEPARENT"] = place
    if mode == "once":
        run_once(source)
    elif mode == "spare":
        mode = wait_as_spare(source.decode("utf-8", "replace"))
    elif number == "0":
        mode = keep_warm(source.decode("utf-8", "replace"))
    else:
        serve_cell(int(number), source)
