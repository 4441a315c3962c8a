import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";

import { ServerCredentials } from "@grpc/grpc-js";

import type { ConnectOptions, TlsCredentials } from "../src/index.js";
import { Client, UnreachableError } from "../src/index.js";
import { FakeSidecar, PATIENCE_MS } from "./fake-sidecar.js";

const folder = mkdtempSync(path.join(tmpdir(), "leasehold-"));
after(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** A certificate and its key, signed by itself. */
function authority(name: string): { certificate: Buffer; key: Buffer } {
  const [certificate, key] = [path.join(folder, `${name}.crt`), path.join(folder, `${name}.key`)];
  const options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  const names = ["-subj", `/CN=${name}`, "-addext", `subjectAltName=DNS:${name}`];
  execFileSync("openssl", ["req", "-x509", ...options, ...names, "-keyout", key, "-out", certificate], {
    stdio: "pipe",
  });
  return { certificate: readFileSync(certificate), key: readFileSync(key) };
}

const sidecar = authority("sidecar.test");
const holder = authority("holder.test");
const stranger = authority("stranger.test");

/** A sidecar that trusts the holder of that certificate, at a port of its own unless one is given. */
async function serve(trusted = holder, port = 0): Promise<FakeSidecar> {
  const pair = { cert_chain: sidecar.certificate, private_key: sidecar.key };
  const credentials = ServerCredentials.createSsl(trusted.certificate, [pair], true);
  const server = await FakeSidecar.start(`127.0.0.1:${String(port)}`, {}, credentials);
  server.answers["resolvePath"] = [{ lockPath: "locks/f" }];
  return server;
}

/** What the first call of a client fails with. */
async function firstCall(options: ConnectOptions): Promise<unknown> {
  await using client = await Client.connect(options);
  return await client.resolvePath({ function: "f" }).catch((reason: unknown) => reason);
}

function endpointOf({ port }: FakeSidecar): string {
  return `https://127.0.0.1:${String(port)}`;
}

const TRUSTING = { ca: sidecar.certificate, serverName: "sidecar.test" };

test("https with certificates of both sides, and a token", async () => {
  using server = await serve();
  const common = { ...TRUSTING, endpoint: endpointOf(server) };
  const options: ConnectOptions = { ...common, clientCertificate: holder, bearerToken: "secret" };
  await using client = await Client.connect({ ...options, ca: sidecar.certificate.toString() });
  assert.equal((await client.resolvePath({ function: "f" })).lockPath, "locks/f");
  assert.deepEqual(server.calls[0]?.metadata.get("authorization"), ["Bearer secret"]);
  for (const wrong of [{ ca: stranger.certificate }, { serverName: "other.test" }]) {
    const error = await firstCall({ ...options, ...wrong });
    assert.ok(error instanceof UnreachableError);
    assert.match(error.message, /certificate|altnames/i);
  }
});

test("a sidecar that wants a certificate that it trusts says so", async () => {
  using server = await serve();
  for (const shown of [{}, { clientCertificate: stranger }]) {
    const error = await firstCall({ ...TRUSTING, endpoint: endpointOf(server), ...shown });
    assert.ok(error instanceof UnreachableError);
    assert.match(error.message, /client certificate that it trusts/);
  }
});

test("certificates are asked for before each connection", async () => {
  let current = holder;
  const tls = (): TlsCredentials => ({ ca: sidecar.certificate, clientCertificate: current });
  const first = await serve();
  await using client = await Client.connect({ endpoint: endpointOf(first), tls, serverName: "sidecar.test" });
  await client.resolvePath({ function: "f" });
  first.kill();
  // From now on only the renewed certificate is trusted.
  current = stranger;
  using second = await serve(stranger, first.port);
  const end = performance.now() + PATIENCE_MS;
  while (second.asked.length === 0) {
    assert.ok(performance.now() < end, "the new connection shows the new certificate");
    await client.resolvePath({ function: "f" }).catch(() => undefined);
  }
});
