import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";

import { Server, ServerCredentials } from "@grpc/grpc-js";

import type { ConnectOptions, TlsCredentials } from "../src/index.js";
import { Client, UnreachableError } from "../src/index.js";
import { LeaseServiceService } from "../src/proto.js";

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

async function serve(
  trusted = holder,
  at = "127.0.0.1:0",
): Promise<{ server: Server; endpoint: string; seen: string[] }> {
  const server = new Server();
  const seen: string[] = [];
  server.addService(LeaseServiceService, {
    resolvePath: (
      { metadata }: { metadata: { get: (name: string) => unknown[] } },
      answer: (error: null, value: object) => void,
    ) => {
      seen.push(String(metadata.get("authorization")[0]));
      answer(null, { lockPath: "locks/f", hostId: "", hostType: "", provider: "", layout: "" });
    },
  });
  const pair = { cert_chain: sidecar.certificate, private_key: sidecar.key };
  const credentials = ServerCredentials.createSsl(trusted.certificate, [pair], true);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(at, credentials, (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  return { server, endpoint: `https://127.0.0.1:${String(port)}`, seen };
}

/** What the first call of a client fails with. */
async function firstCall(options: ConnectOptions): Promise<unknown> {
  await using client = await Client.connect(options);
  return await client.resolvePath({ function: "f" }).catch((reason: unknown) => reason);
}

test("https with certificates of both sides, and a token", async () => {
  const { server, endpoint, seen } = await serve();
  const options: ConnectOptions = {
    endpoint,
    ca: sidecar.certificate.toString(),
    clientCertificate: holder,
    serverName: "sidecar.test",
    bearerToken: "secret",
  };
  try {
    await using client = await Client.connect(options);
    assert.equal((await client.resolvePath({ function: "f" })).lockPath, "locks/f");
    assert.deepEqual(seen, ["Bearer secret"]);

    for (const wrong of [{ ca: stranger.certificate }, { serverName: "other.test" }]) {
      const error = await firstCall({ ...options, ...wrong });
      assert.ok(error instanceof UnreachableError);
      assert.match(error.message, /certificate|altnames/i);
    }
  } finally {
    server.forceShutdown();
  }
});

test("a sidecar that wants a certificate that it trusts says so", async () => {
  const { server, endpoint } = await serve();
  try {
    for (const shown of [{}, { clientCertificate: stranger }]) {
      const options = { endpoint, ca: sidecar.certificate, serverName: "sidecar.test", ...shown };
      const error = await firstCall(options);
      assert.ok(error instanceof UnreachableError);
      assert.match(error.message, /client certificate that it trusts/);
    }
  } finally {
    server.forceShutdown();
  }
});

test("certificates are asked for before each connection", async () => {
  const first = await serve();
  let current = holder;
  const tls = (): TlsCredentials => ({ ca: sidecar.certificate, clientCertificate: current });
  await using client = await Client.connect({ endpoint: first.endpoint, tls, serverName: "sidecar.test" });
  await client.resolvePath({ function: "f" });
  first.server.forceShutdown();
  // From now on only the renewed certificate is trusted.
  current = stranger;
  const second = await serve(stranger, first.endpoint.slice("https://".length));
  try {
    const end = performance.now() + 20_000;
    for (;;) {
      const answer = await client.resolvePath({ function: "f" }).catch(() => undefined);
      if (answer !== undefined) break;
      assert.ok(performance.now() < end, "the new connection shows the new certificate");
    }
  } finally {
    second.server.forceShutdown();
  }
});
