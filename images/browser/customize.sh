#!/bin/sh
# Last step of the `browser` image, after those of `base`. The browser is Debian's Chromium: Playwright's own builds are in no
# package registry. Both Playwrights are told where it is and to fetch nothing.
set -eu

PLAYWRIGHT_NPM=playwright@1.65.0

work=/var/tmp/customize
rm -rf "$work" && mkdir -p "$work"

echo "customize: playwright and crawl4ai"
cat > "$work/requirements.txt" <<'REQUIREMENTS'
aiofiles==25.1.0
aiohappyeyeballs==2.7.1
aiohttp==3.14.5
aiosignal==1.4.0
aiosqlite==0.22.1
alphashape==1.3.1
annotated-types==0.8.0
anyio==4.16.0
attrs==26.1.0
beautifulsoup4==4.15.0
brotli==1.2.1
certifi==2026.10.18
cffi==2.1.1
chardet==7.7.0
charset-normalizer==3.5.2
click-log==0.4.0
click==8.5.1
cloudpickle==3.1.2
Crawl4AI==0.9.5
cryptography==50.0.2
cssselect==1.6.0
defusedxml==0.7.1
fake-useragent==2.2.0
fastuuid==0.14.0
filelock==4.2.10
frozenlist==1.8.0
fsspec==2026.9.0
greenlet==3.5.6
h11==0.16.0
h2==4.4.1
hf-xet==1.8.0
hpack==4.2.0
httpcore2==2.16.0
httpcore==1.0.9
httpx2==2.16.0
httpx==0.28.1
huggingface_hub==2.4.0
humanize==4.16.0
hyperframe==6.1.0
idna==3.20
importlib_metadata==10.2.0
Jinja2==3.1.6
jiter==0.19.0
joblib==1.6.0
jsonschema-specifications==2025.9.1
jsonschema==4.26.0
lark==1.3.1
lazy-importer==0.1.0
lxml==6.1.3
markdown-it-py==4.3.0
MarkupSafe==3.0.4
mdurl==0.1.2
multidict==7.2.1
networkx==3.6.1
nltk==3.10.4
numpy==2.4.6
openai==3.49.0
packaging==26.3
patchright==1.64.3
pillow==13.0.0
playwright-stealth==2.0.3
playwright==1.65.0
propcache==0.5.4
psutil==7.2.2
pycparser==3.12
pydantic==2.14.3
pydantic_core==2.50.4
pyee==13.0.1
Pygments==2.21.0
pyOpenSSL==26.4.0
python-dotenv==1.2.4
PyYAML==6.0.3
rank-bm25==0.2.2
referencing==0.37.0
regex==2026.11.9
requests==2.34.2
rich==15.0.0
rpds-py==2026.9.1
rtree==1.4.1
scipy==1.17.1
shapely==2.2.0
sniffio==1.3.1
snowballstemmer==2.2.0
soupsieve==2.10
tiktoken==0.14.0
tokenizers==0.23.3
tqdm==4.70.1
trimesh==5.2.0
truststore==0.10.5
typing-inspection==0.4.5
typing_extensions==4.16.0
unclecode-litellm==1.81.13
urllib3==2.8.0
xxhash==3.8.2
yarl==1.25.1
zipp==4.1.2
REQUIREMENTS
pip install --quiet --no-cache-dir --no-deps --prefer-binary --requirement "$work/requirements.txt"
# Both bring a command `playwright`, and npm would stumble over it: Python's keeps the name.
PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm install --loglevel=error --no-fund --no-audit --prefix "$work/node" --cache "$work/npm-cache" "$PLAYWRIGHT_NPM"
for package in playwright playwright-core; do mv "$work/node/node_modules/$package" /usr/local/lib/node_modules/; done
printf '#!/bin/sh\nexec node /usr/local/lib/node_modules/playwright/cli.js "$@"\n' > /usr/local/bin/playwright-node
chmod 755 /usr/local/bin/playwright-node

# A root user's browser has no sandbox of its own; the machine is one.
cat > /usr/local/bin/chromium <<'CHROMIUM'
#!/bin/sh
exec /usr/bin/chromium --no-sandbox --disable-dev-shm-usage --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync "$@"
CHROMIUM
chmod 755 /usr/local/bin/chromium
for name in google-chrome chrome; do ln -sf chromium /usr/local/bin/$name; done
# The channel `chrome` is looked for here, so `launch(channel="chrome")` works without a path.
mkdir -p /opt/google/chrome && ln -sf /usr/local/bin/chromium /opt/google/chrome/chrome
cat >> /etc/environment <<'ENVIRONMENT'
PLAYWRIGHT_BROWSERS_PATH=/opt/playwright
PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1
PLAYWRIGHT_SKIP_VALIDATE_HOST_REQUIREMENTS=1
CHROME_PATH=/usr/local/bin/chromium
NODE_PATH=/usr/local/lib/node_modules
ENVIRONMENT
sed 's/^/export /' /etc/environment > /etc/profile.d/browser.sh
. /etc/profile.d/browser.sh

# Everybody else calls `launch()` without a word and expects a browser of exactly one version in exactly one place. Each of
# the two tells where it looks, and finds Debian's there.
python3 - <<'LINKS'
import os, re
import patchright.sync_api, playwright.sync_api

for api in (patchright.sync_api, playwright.sync_api):
    with api.sync_playwright() as play:
        for headless in (False, True):
            try:
                play.chromium.launch(headless=headless).close()
            except api.Error as error:
                wanted = re.search(r"Executable doesn't exist at (\S+)", str(error))
                # With a window it starts only where there is a screen; that it is found is enough.
                if wanted:
                    os.makedirs(os.path.dirname(wanted[1]), exist_ok=True)
                    os.symlink("/usr/local/bin/chromium", wanted[1])
LINKS

echo "customize: proof"
python3 - <<'PROOF'
import asyncio
from playwright.sync_api import sync_playwright
with sync_playwright() as play:
    for options in ({}, {"channel": "chrome"}):
        browser = play.chromium.launch(**options)
        page = browser.new_page()
        page.set_content("<title>works</title><button onclick='document.title=6*7'>go</button>")
        page.click("button")
        assert page.title() == "42", page.title()
        assert page.screenshot().startswith(b"\x89PNG")
        print("chromium", browser.version)
        browser.close()

from crawl4ai import AsyncWebCrawler
from crawl4ai.__version__ import __version__
async def crawl():
    async with AsyncWebCrawler(verbose=False) as crawler:
        got = await crawler.arun("raw:<html><body><h1>Pandas</h1><p>They eat <b>bamboo</b> all day long.</p></body></html>")
        assert got.success and "bamboo" in str(got.markdown), got
asyncio.run(crawl())
print("crawl4ai", __version__)
PROOF
node -e 'require("playwright").chromium.launch().then(async b => { console.log("node playwright", b.version()); await b.close() })'

rm -rf "$work" /root/.npm /root/.config /root/.local /root/.crawl4ai /root/.cache
