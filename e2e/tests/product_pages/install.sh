curl -sSL pandastack.ai/install | sh
