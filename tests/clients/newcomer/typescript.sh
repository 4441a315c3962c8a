#!/bin/sh
# A newcomer in TypeScript: the npm package in an empty project, and a few lines. newcomer/typescript.sh FOLDER
set -eu
client=$(CDPATH='' cd -- "$(dirname -- "$0")/../../../clients/typescript" && pwd)
cd -- "$1"
[ -d "$client/node_modules" ] || (cd "$client" && npm ci --no-audit --no-fund --loglevel=error >&2)
# Packing builds anew (`prepack`), under the feet of the drivers that run from dist/ meanwhile: what they run from is packed.
[ -e "$client/dist/src/index.js" ] || (cd "$client" && node_modules/.bin/tsc >&2)
(cd "$client" && npm pack --silent --ignore-scripts --pack-destination "$1" >&2)
cat >package.json <<'JSON'
{ "name": "newcomer", "private": true, "type": "module" }
JSON
npm install --silent --no-audit --no-fund ./leasehold-client-*.tgz >&2
npm install --silent --no-audit --no-fund --save-dev typescript@5 @types/node@20 >&2
cat >main.ts <<'TS'
import { Client } from "leasehold-client";

await using client = await Client.connect();
await using hold = await client.hold({ function: "nightly-report", waitMs: 30_000 });
console.log(`writing the report with token ${hold.fencingToken}`);
TS
node_modules/.bin/tsc --strict --target es2022 --lib es2022,esnext.disposable --module nodenext main.ts >&2
exec node main.js
