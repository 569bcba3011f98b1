#!/usr/bin/env bash
# A bash tool saved with CRLF line ends. Says hello to its first argument.
set -euo pipefail
name=${1:-world}
if [ -n "$name" ]; then
  printf 'hello %s\n' "$name"
fi
