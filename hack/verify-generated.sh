#!/usr/bin/env bash
# Makes the generated files anew and fails when one of them was not current. The work tree is left as it was made anew.
set -euo pipefail
cd "$(dirname "$0")/.."
generated() {
	git ls-files -z -- '*.pb.go' '*zz_generated*' 'manifests/crds/*.yaml' go.mod go.sum devcluster/go.mod devcluster/go.sum | xargs -0 sha256sum
}
before=$(generated)
make --no-print-directory generate >/dev/null
go mod tidy
(cd devcluster && go mod tidy)
if ! diff <(echo "$before") <(generated) >/dev/null; then
	echo "Generated files were not current. Commit what 'make generate' and 'go mod tidy' made:" >&2
	diff <(echo "$before") <(generated) | awk '/^>/ {print "  " $3}' >&2
	exit 1
fi
echo "generated code and go.mod are current"
