import os
control = os.dup(0)
def take(count):
    data = b""
    while len(data) < count:
        piece = os.read(control, count - len(data))
        if not piece: os._exit(0)
        data += piece
    return data
def line():
    text = take(1)
    while text[-1:] != b"\n": text += take(1)
    return text
exec(compile(take(int(line())), "<kernel>", "exec"), {"__name__": "kernel", "control": control, "take": take, "line": line})
