#!/usr/bin/env bash
# Fuzzes a running vault from its own OpenAPI document with Schemathesis (Python), where the machine has it.
#   test/fuzz/schemathesis.sh [seconds for each key, 60 by default]
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:-60}
version=4.32.5
venv=.cache/schemathesis
port=${FUZZ_PORT:-18097}
node=node_modules/node/bin/node

skip() {
  echo "schemathesis: skipped: $1"
  exit 0
}

command -v python3 > /dev/null || skip 'there is no python3'
if [ ! -x "$venv/bin/st" ]; then
  python3 -m venv "$venv" > /dev/null 2>&1 || skip 'python3 cannot make a virtual environment'
  "$venv/bin/pip" install --quiet "schemathesis==$version" || { rm -rf "$venv"; skip 'pip cannot install it'; }
fi

directory=$(mktemp -d)
chmod 711 "$directory"
VAULT_PORT=$port VAULT_DATA_DIR="$directory/vault" VAULT_AUTH_FAILURES_PER_MINUTE=0 VAULT_LOG_LEVEL=warn \
  "$node" standalone/src/main.ts > "$directory/out" 2>&1 &
vault=$!
trap 'kill $vault 2> /dev/null; wait $vault || true; rm -rf "$directory"' EXIT
for _ in $(seq 1 120); do
  curl -sf "http://127.0.0.1:$port/health/ready" > /dev/null && break
  kill -0 $vault 2> /dev/null || { cat "$directory/out"; exit 1; }
  sleep 0.5
done

url="http://127.0.0.1:$port"
credentials=$(grep -rl --include='*.json' management_key "$directory/vault" | head -n 1)
management=$(sed -n 's/.*"management_key": "\(.*\)".*/\1/p' "$credentials")
private=$(curl -s "$url/applications" -H "SVC-API-KEY: $management" -H 'Content-Type: application/json' -d '{
  "name": "fuzz", "type": "private",
  "permissions": ["token:create", "token:read", "token:update", "token:delete", "token:search", "token:use"]
}' | sed -n 's/.*"key":"\([^"]*\)".*/\1/p')

# Valid-looking data may be refused by rules that no schema can say (a Luhn digit, an expression), so that is not checked. A
# position that is not reached is 503 by design: one that is goes with every request.
checks=not_a_server_error,content_type_conformance,response_headers_conformance,response_schema_conformance
checks=$checks,status_code_conformance,unsupported_method,ignored_auth

# Its last line looks like that of pytest without a test, and would be taken for the number of tests that CI ran.
fuzz() {
  "$venv/bin/st" run "$url/openapi.json" -H "SVC-API-KEY: $1" -H 'SVC-POSITION: 0' --max-time "$seconds" \
    --continue-on-failure --checks "$checks" --request-timeout 30 ${FUZZ_SEED:+--seed "$FUZZ_SEED"} "${@:2}" |
    sed -E 's/^=+ (.*) =+$/-- \1/'
}

# What takes the key in use away comes last, and what ends the tenant not at all.
killers=(--include-operation-id deleteApplication --include-operation-id updateApplication
  --include-operation-id regenerateApplicationKey)
# This operation pauses projections, and a vault with a paused projection is not ready.
pauses=(--exclude-operation-id commandProjection)
status=0
fuzz "$private" --exclude-operation-id deleteTenant --exclude-operation-id react || status=1
fuzz "$management" "${killers[@]/#--include/--exclude}" "${pauses[@]}" --exclude-operation-id deleteTenant || status=1
fuzz "$management" "${killers[@]}" || status=1
curl -sf "$url/health/ready" > /dev/null || { echo 'the vault is not ready any more'; status=1; }
exit $status
