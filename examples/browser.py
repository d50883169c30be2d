"""Browser automation: Chromium runs in a sandbox of the template `browser`, driven by Playwright.

The site is in the sandbox too, so this needs no internet. For a site outside, replace the URL, and
name its host in `egress_allowlist`: the browser can then reach nothing else.

Run it: python examples/browser.py
It saves a screenshot as browser.png in the current directory.
"""

from __future__ import annotations

from pandastack import Sandbox

SITE = """
<title>Tea shop</title>
<h1>Tea shop</h1>
<form>
  <label>Tea <input name="tea"></label>
  <label>Packets <input name="packets" type="number"></label>
  <button>Order</button>
</form>
<p role="status"></p>
<script>
  document.forms[0].onsubmit = (event) => {
    event.preventDefault();
    const { tea, packets } = event.target;
    const text = `Ordered: ${packets.value} packets of ${tea.value}`;
    document.querySelector("p").textContent = text;
  };
</script>
"""

VISIT = """
from playwright.sync_api import sync_playwright

with sync_playwright() as play:
    browser = play.chromium.launch()
    page = browser.new_page(viewport={"width": 640, "height": 240})
    page.set_default_timeout(600_000)  # Without hardware virtualization it takes minutes.
    page.goto("http://localhost:8000")
    print("title:", page.title())
    page.get_by_label("Tea").fill("Da Hong Pao")
    page.get_by_label("Packets").fill("3")
    page.get_by_role("button", name="Order").click()
    print("page says:", page.get_by_role("status").inner_text())
    page.screenshot(path="/site/order.png")
    browser.close()
"""


def main() -> None:
    with Sandbox(template="browser", egress_allowlist=[]) as sandbox:
        sandbox.filesystem.write("/site/index.html", SITE)
        sandbox.filesystem.write("/site/visit.py", VISIT)
        sandbox.spawn("python3 -m http.server 8000", cwd="/site", tag="site")

        sandbox.stream(
            "until curl -sf localhost:8000 > /dev/null; do sleep 0.1; done; python3 -u visit.py",
            on_stdout=lambda text: print(text, end=""),
            cwd="/site",
            timeout_seconds=1800,
            check=True,
        )
        sandbox.filesystem.download("/site/order.png", "browser.png")
    with open("browser.png", "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"
    print("the screenshot is in browser.png")


if __name__ == "__main__":
    main()
