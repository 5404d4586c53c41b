#!/usr/bin/env bash
# Makes the generated files anew and fails when one of them was not current. The work tree is left as it was made anew.
set -euo pipefail
cd "$(dirname "$0")/.."
generated() {
	git ls-files -z -- '*.pb.go' '*zz_generated*' 'manifests/crds/*.yaml' docs/reference | xargs -0 sha256sum
}
before=$(generated)
make --no-print-directory generate >/dev/null
if ! diff <(echo "$before") <(generated) >/dev/null; then
	echo "Generated files were not current. Commit what 'make generate' made:" >&2
	diff <(echo "$before") <(generated) | awk '/^>/ {print "  " $3}' >&2
	exit 1
fi
echo "generated code is current"
