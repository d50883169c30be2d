// What no page may do: errors in the console, uncaught errors, breaches of the content security
// policy, requests that fail, and answers that are refusals. What the walk provokes on purpose is
// announced before, with method, path and status, and must then really happen.

const REFUSAL = "Failed to load resource: the server responded with a status of";

export class Watch {
  #complaints = [];
  #expected = [];

  /** Watches all pages of a context. */
  async over(context, who) {
    const complain = (text) => this.#complaints.push(`${who}: ${text}`);
    await context.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) =>
        console.error(
          `policy: ${event.violatedDirective} forbids ${event.blockedURI} in ${event.sourceFile}`,
        ),
      );
    });
    context.on("weberror", (error) => complain(`uncaught ${error.error().stack ?? error.error()}`));
    context.on("console", (message) => {
      // The answer itself is judged below.
      if (message.type() !== "error" || message.text().startsWith(REFUSAL)) return;
      complain(
        `console: ${message.text()} (${message.location().url}, page ${message.page()?.url()})`,
      );
    });
    context.on("requestfailed", (request) => {
      const why = request.failure()?.errorText;
      // A page that is left, or a stream that is closed.
      if (why !== "net::ERR_ABORTED")
        complain(`${request.method()} ${request.url()} failed: ${why}`);
    });
    context.on("response", (response) => {
      if (response.status() >= 400 && !this.#take(response)) {
        complain(`${response.request().method()} ${response.url()} answered ${response.status()}`);
      }
    });
    context.on("page", (page) =>
      page.on("crash", () => complain(`the page ${page.url()} crashed`)),
    );
  }

  /** Announces one refusal. */
  expect(method, path, status) {
    this.#expected.push({ method, path, status });
  }

  #take(response) {
    const { pathname } = new URL(response.url());
    const at = this.#expected.findIndex(
      ({ method, path, status }) =>
        method === response.request().method() &&
        path.test(pathname) &&
        status === response.status(),
    );
    if (at >= 0) this.#expected.splice(at, 1);
    return at >= 0;
  }

  /** Everything that is wrong so far; at the end also refusals that never came. */
  complaints(isEnd) {
    const missing = isEnd ? this.#expected : [];
    return [
      ...this.#complaints,
      ...missing.map(({ method, path, status }) => `${method} ${path} never answered ${status}`),
    ];
  }
}
