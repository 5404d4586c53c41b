#!/usr/bin/env bash
# Writes docs/reference/flags.md from what the programs in bin/ print with --help.
set -euo pipefail
cd "$(dirname "$0")/.."
# Defaults that come from the Pod are shown as the variables they are.
export POD_NAME='$POD_NAME' POD_NAMESPACE='$POD_NAMESPACE' NODE_NAME='$NODE_NAME'
mkdir -p docs/reference
{
	echo "# Flags"
	echo
	echo "Made by \`make generate\` from \`--help\`."
	for program in "$@"; do
		printf '\n## %s\n\n```\n' "$program"
		"bin/$program" --help
		echo '```'
	done
} >docs/reference/flags.md
