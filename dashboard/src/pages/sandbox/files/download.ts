import type { FileInfo } from "@pandastack/sdk";
import { sandboxHandle } from "@/data/client";

/** Lets the browser save a file, or a folder as an archive. It goes to disk piece by piece. */
export async function downloadFile(sandboxId: string, entry: FileInfo): Promise<void> {
  const address = await sandboxHandle(sandboxId).filesystem.address(entry.path, {
    archive: entry.is_dir,
  });
  const link = document.createElement("a");
  link.href = address;
  link.download = entry.is_dir ? `${entry.name}.tar` : entry.name;
  document.body.append(link);
  link.click();
  link.remove();
}
