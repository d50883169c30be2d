#!/bin/sh
# Last step of the `agent` image, after those of `base`: the command lines of coding agents, pinned.
set -eu

CLAUDE_PACKAGE="@anthropic-ai/claude-code@2.1.325"
CODEX_PACKAGE="@openai/codex@0.166.0"
# The plain build wants AVX2, which a machine's CPU profile may not have.
OPENCODE_PACKAGE="opencode-linux-x64-baseline@1.18.33"

work=/var/tmp/customize
rm -rf "$work" && mkdir -p "$work"

echo "customize: claude and codex"
npm install --loglevel=error --no-fund --no-audit --global --cache "$work/npm-cache" "$CLAUDE_PACKAGE" "$CODEX_PACKAGE"

echo "customize: opencode"
(cd "$work" && npm pack --loglevel=error --cache "$work/npm-cache" "$OPENCODE_PACKAGE" > packed)
tar -xzf "$work/$(tail -n 1 "$work/packed")" -C "$work" --strip-components 1
install -m 755 "$work/bin/opencode" /usr/local/bin/opencode
ln -sf fdfind /usr/bin/fd

# What an image has is not to replace itself behind its user's back.
cat >> /etc/environment <<'ENVIRONMENT'
DISABLE_AUTOUPDATER=1
OPENCODE_DISABLE_AUTOUPDATE=1
ENVIRONMENT
sed 's/^/export /' /etc/environment > /etc/profile.d/agent.sh

echo "customize: proof"
claude --version
codex --version
opencode --version

rm -rf "$work" /root/.npm /root/.config /root/.local /root/.cache /root/.claude* /root/.codex
