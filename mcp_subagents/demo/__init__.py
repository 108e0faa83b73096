"""A model without a provider, and a story told with it: all of mcp-subagents, with no key and no network."""
