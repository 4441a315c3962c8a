#!/bin/sh
# A newcomer in TypeScript: the npm package in an empty project, and the first program of the README. newcomer/typescript.sh FOLDER
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
# As it stands, the same text is a program for Node.js and one in TypeScript.
awk '/^```/ { if (code) exit; code = /ts$/; next } code' "$client/README.md" >main.mjs
cp main.mjs main.mts
node_modules/.bin/tsc --noEmit --strict --target es2022 --lib es2022,esnext.disposable --module nodenext main.mts >&2
exec node main.mjs
