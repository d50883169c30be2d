// Code cells: variables that stay, a plot, and an error.

import { part } from "../walk/people.mjs";
import { until } from "../walk/wait.mjs";
import { shownPicture } from "./files.mjs";

/** Draws a curve as a PNG without a library: the small template has none. */
const PLOT = `import math, struct, zlib
class Plot:
    def __init__(self, f, width=360, height=180):
        rows = [bytearray(b'\\xff' * width * 3) for _ in range(height)]
        for x in range(width):
            y = int((1 - f(x / width * 4 * math.pi)) / 2 * (height - 9)) + 4
            for near in range(y - 1, y + 2): rows[near][3 * x:3 * x + 3] = b'\\x2f\\x8f\\x5b'
        self.size, self.rows = (width, height), rows
    def _repr_png_(self):
        number = lambda value: struct.pack('>I', value)
        part = lambda kind, data: number(len(data)) + kind + data + number(zlib.crc32(kind + data))
        head = struct.pack('>IIBBBBB', *self.size, 8, 2, 0, 0, 0)
        data = zlib.compress(b''.join(b'\\0' + bytes(row) for row in self.rows))
        return b'\\x89PNG\\r\\n\\x1a\\n' + part(b'IHDR', head) + part(b'IDAT', data) + part(b'IEND', b'')
Plot(math.sin)`;

export async function runCode(walk, page) {
  await part(page, "Code");
  await run(page, 0, "answer = 40\nprint('set')", "done");
  await run(page, 1, "answer + 2", "done");
  await output(page, 1).getByText("42", { exact: true }).waitFor();
  await run(page, 2, PLOT, "done");
  await shownPicture(output(page, 2).getByRole("img"));
  await run(page, 3, "1 / 0", "failed");
  await output(page, 3).getByText("ZeroDivisionError").first().waitFor();
  await output(page, 2).getByRole("img").scrollIntoViewIfNeeded();
  await walk.album.take(page, "sandbox-code");
}

/** Writes a cell and runs it. That makes the next one. */
async function run(page, at, code, end) {
  await page.getByRole("textbox", { name: `Code of cell ${at + 1}` }).click();
  await page.keyboard.insertText(code);
  await page.keyboard.press("Shift+Enter");
  const cell = page.locator("[data-cell-state]").nth(at);
  await until(
    `cell ${at + 1} is ${end}`,
    async () => (await cell.getAttribute("data-cell-state")) === end,
  );
}

function output(page, at) {
  return page.locator("[data-cell-state]").nth(at).locator("[data-cell-output]");
}
