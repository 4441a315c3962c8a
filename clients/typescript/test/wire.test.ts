// What lies below the vectors: a real server, certificates, tokens, and the wait for a connection.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";

import type { Interceptor, Metadata, ServerUnaryCall, ServerWritableStream, sendUnaryData } from "@grpc/grpc-js";
import { InterceptingCall, Server, ServerCredentials, status } from "@grpc/grpc-js";

import type { ConnectOptions, TlsCredentials } from "../src/index.js";
import { Client, UnreachableError } from "../src/index.js";
import { Grant, LeaseServiceService } from "../src/proto.js";

const SHORT = { timeout: 60_000 };
const folder = mkdtempSync(path.join(tmpdir(), "leasehold-"));
const SOCKET = `unix://${folder}/socket`;
after(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** It grants what it is asked for, and knows the path of every lock. */
class Wire implements Disposable {
  /** What came with each call. */
  readonly heard: Metadata[] = [];
  readonly #server = new Server();
  port = 0;

  static async start(address: string, credentials = ServerCredentials.createInsecure()): Promise<Wire> {
    const wire = new Wire();
    const validity = { validUntil: undefined, validFor: { seconds: 58, nanos: 0 } };
    const granted = { $case: "granted", value: Grant.create({ leaseId: "lease-1", validity }) };
    const answering = (answer: object) => (call: ServerUnaryCall<object, object>, callback: sendUnaryData<object>) => {
      wire.heard.push(call.metadata);
      callback(null, answer);
    };
    wire.#server.addService(LeaseServiceService, {
      resolvePath: answering({ lockPath: "locks/f" }),
      acquireLease: answering({ outcome: granted }),
      releaseLease: answering({ result: {} }),
      holdLease: (call: ServerWritableStream<object, object>) => call.write({ event: granted }),
    });
    wire.port = await promisify(wire.#server.bindAsync.bind(wire.#server))(address, credentials);
    return wire;
  }

  [Symbol.dispose](): void {
    this.#server.forceShutdown();
  }
}

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
async function serve(trusted = holder, port = 0): Promise<Wire> {
  const pair = { cert_chain: sidecar.certificate, private_key: sidecar.key };
  const credentials = ServerCredentials.createSsl(trusted.certificate, [pair], true);
  return await Wire.start(`127.0.0.1:${String(port)}`, credentials);
}

/** What the first call of a client fails with. */
async function firstCall(options: ConnectOptions): Promise<unknown> {
  await using client = await Client.connect(options);
  return await client.resolvePath({ function: "f" }).catch((reason: unknown) => reason);
}

function endpointOf({ port }: Wire): string {
  return `https://127.0.0.1:${String(port)}`;
}

const TRUSTING = { ca: sidecar.certificate, serverName: "sidecar.test" };

test("https with certificates of both sides, and a token", async () => {
  using server = await serve();
  const common = { ...TRUSTING, endpoint: endpointOf(server) };
  const options: ConnectOptions = { ...common, clientCertificate: holder, bearerToken: "secret" };
  await using client = await Client.connect({ ...options, ca: sidecar.certificate.toString() });
  assert.equal((await client.resolvePath({ function: "f" })).lockPath, "locks/f");
  assert.deepEqual(server.heard[0]?.get("authorization"), ["Bearer secret"]);
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

test("certificates are asked for before each connection", SHORT, async () => {
  let current = holder;
  const tls = (): TlsCredentials => ({ ca: sidecar.certificate, clientCertificate: current });
  const first = await serve();
  await using client = await Client.connect({ endpoint: endpointOf(first), tls, serverName: "sidecar.test" });
  await client.resolvePath({ function: "f" });
  first[Symbol.dispose]();
  // From now on only the renewed certificate is trusted.
  current = stranger;
  using second = await serve(stranger, first.port);
  while (second.heard.length === 0) await client.resolvePath({ function: "f" }).catch(() => undefined);
});

test("a token is asked for each call, which goes through interceptors", SHORT, async () => {
  using server = await Wire.start(SOCKET);
  let asked = 0;
  const bearerToken = async (): Promise<string> => {
    asked += 1;
    if (asked > 2) throw new Error("the file is gone");
    return await Promise.resolve(`token-${String(asked)}\n`);
  };
  const methods: string[] = [];
  const noting: Interceptor = (options, nextCall) => {
    methods.push(options.method_definition.path.replace(/.*\//, ""));
    return new InterceptingCall(nextCall(options));
  };
  await using client = await Client.connect({ endpoint: SOCKET, bearerToken, interceptors: [noting] });
  await using fixed = await Client.connect({ endpoint: SOCKET, bearerToken: "secret\n" });
  for (const it of [client, client, fixed]) await it.resolvePath({ function: "f" });
  const tokens = server.heard.map((metadata) => metadata.get("authorization")[0]);
  assert.deepEqual(tokens, ["Bearer token-1", "Bearer token-2", "Bearer secret"]);
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  const failing = client.release("l");
  await assert.rejects(failing, { name: "RefusedError", code: status.UNAUTHENTICATED, message: /the file is gone/ });
  assert.equal(timers(), before, "nothing keeps the process alive");
  assert.deepEqual(methods, ["ResolvePath", "ResolvePath", "ReleaseLease"]);
});

test("a wait covers a sidecar that starts later, or ends with its signal", SHORT, async () => {
  await using client = await Client.connect({ endpoint: SOCKET });
  const waits = [3_600_000, Infinity].map((waitMs) => ({ function: "f", waitMs }));
  for (const spec of waits) {
    const options = { signal: AbortSignal.timeout(50) };
    await assert.rejects(client.hold(spec, options), { name: "TimeoutError" });
    await assert.rejects(client.acquire(spec, options), { name: "TimeoutError" });
  }
  const waiting = waits.flatMap((spec) => [client.hold(spec), client.acquire(spec)]);
  await assert.rejects(client.getLock({ function: "f" }), UnreachableError);
  using server = await Wire.start(SOCKET);
  for (const { leaseId } of await Promise.all(waiting)) assert.equal(leaseId, "lease-1");
  assert.equal(server.heard.length, 2);
});

test("nobody there is said with what to do", async () => {
  for (const endpoint of ["http://127.0.0.1:1", "http://[::1]:1", "unix:///nowhere/leasehold.sock"]) {
    await using client = await Client.connect({ endpoint });
    const [hold, acquire] = [() => client.hold({ function: "f" }), () => client.acquire({ function: "f" })];
    for (const call of [hold, acquire, () => client.getLock({ function: "f" })]) {
      const error: unknown = await call().catch((reason: unknown) => reason);
      assert.ok(error instanceof UnreachableError && error.endpoint === endpoint);
      assert.ok(error.message.includes(endpoint) && error.message.includes("leasehold serve"), error.message);
    }
  }
});
