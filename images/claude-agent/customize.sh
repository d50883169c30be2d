#!/bin/sh
# Last step of the `claude-agent` image, after those of `agent`: what a worker's launch script expects to find.
# The in-guest runner (`ant`) is in no package registry; a Dockerfile FROM this template adds it.
set -eu

mkdir -p /workspace /mnt/session/outputs /mnt/session/uploads /opt/mise/shims
# Runtimes are found through these in shells that are no login shells either.
cat >> /etc/environment <<'ENVIRONMENT'
MISE_DATA_DIR=/opt/mise
MISE_CONFIG_DIR=/opt/mise
ENVIRONMENT
sed 's/^/export /' /etc/environment > /etc/profile.d/agent.sh
for tool in node npm npx python3 pip go; do ln -sf "$(command -v $tool)" /opt/mise/shims/$tool; done

echo "customize: proof"
/opt/mise/shims/node -v
/opt/mise/shims/python3 --version
