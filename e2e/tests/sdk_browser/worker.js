// Our SDK in a worker of a page.

import { PandaStack, Sandbox } from "/sdk.js";

onmessage = async ({ data: { options, id } }) => {
  const sandbox = await Sandbox.get(id, new PandaStack(options));
  const socket = sandbox.execSocket();
  const { stdout } = await socket.exec("echo from a worker");
  await socket.close();
  postMessage(stdout);
};
