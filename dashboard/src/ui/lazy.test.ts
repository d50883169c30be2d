import { expect, it, vi } from "vitest";
import { loadPart, PartMissingError } from "./lazy";

it("a part that comes at the third try is shown", async () => {
  const load = vi
    .fn<() => Promise<string>>()
    .mockRejectedValueOnce(new TypeError("Failed to fetch dynamically imported module"))
    .mockRejectedValueOnce(new TypeError("Failed to fetch dynamically imported module"))
    .mockResolvedValue("part");
  expect(await loadPart(load, [0, 0, 0])).toBe("part");
  expect(load).toHaveBeenCalledTimes(3);
});

it("a part that never comes is an error that says what to do", async () => {
  const load = vi.fn(() => Promise.reject(new TypeError("gone")));
  await expect(loadPart(load, [0, 0, 0])).rejects.toThrow(PartMissingError);
  expect(load).toHaveBeenCalledTimes(4);
});
