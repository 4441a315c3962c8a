// Where the sidecar is, and how to get there.

import type { ChannelCredentials, ChannelOptions } from "@grpc/grpc-js";
import { Client as Channel, Metadata, connectivityState, credentials } from "@grpc/grpc-js";

import { EndpointError, UnreachableError } from "./errors.js";

/** Where a sidecar listens unless told otherwise. */
export const DEFAULT_ENDPOINT = "http://127.0.0.1:50951";

/** The environment variable that says where the sidecar is. */
export const ENDPOINT_VARIABLE = "LEASEHOLD_ENDPOINT";

const CONNECT_TIMEOUT_MS = 5_000;

/** How to reach a sidecar. */
export interface ConnectOptions {
  /** `unix:///path`, `http://host:port` or `https://host:port`. Default: `LEASEHOLD_ENDPOINT`, else loopback. */
  readonly endpoint?: string;
  /** The certificate authorities to trust (PEM). Needed with `https`: the system's are not trusted. */
  readonly ca?: string | Uint8Array;
  /** Shown to a sidecar that asks for a certificate (PEM); with `https` only. */
  readonly clientCertificate?: { readonly certificate: string | Uint8Array; readonly key: string | Uint8Array };
  /** The name that the sidecar's certificate must have. Default: the host of the endpoint. */
  readonly serverName?: string;
  /** Sends `authorization: Bearer …` with each call, to a sidecar that asks for a token. */
  readonly bearerToken?: string;
}

/** The connections of a client, and what goes with each call on them. */
export interface Connection {
  /** For calls that last as long as a hold or a wait: a connection carries `limits.streams_per_connection` of them. */
  readonly lasting: Channel;
  /** For calls that must go through at once, releases above all. Connects when the first is made. */
  readonly short: Channel;
  readonly metadata: Metadata;
}

// No keep-alive of our own: an unanswered one would close the connection, which the sidecar on the same machine reads
// as the holder being gone (S13, S14). No retries but the resume (S16), whose pace the backoff has. No proxy: the
// sidecar is a neighbour.
const CHANNEL_OPTIONS: ChannelOptions = {
  "grpc.enable_http_proxy": 0,
  "grpc.enable_retries": 0,
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 250,
  "grpc.service_config_disable_resolution": 1,
  "grpc.use_local_subchannel_pool": 1,
};

/** Connects, and gives up after 5 s. */
export async function connect(options: ConnectOptions): Promise<Connection> {
  const endpoint = options.endpoint ?? environmentEndpoint();
  const shown = endpoint.replace(/\/\/[^/@]*@/, "//…@");
  const useless = (problem: string, cause?: unknown): EndpointError => new EndpointError(shown, problem, { cause });
  const { target, secure } = parse(endpoint, useless);
  const metadata = bearer(options.bearerToken, useless);
  const channelOptions = { ...CHANNEL_OPTIONS };
  if (options.serverName !== undefined) {
    channelOptions["grpc.ssl_target_name_override"] = options.serverName;
    channelOptions["grpc.default_authority"] = options.serverName;
  }
  const secrets = channelCredentials(options, secure, useless);
  const lasting = new Channel(target, secrets, channelOptions);
  const problem = await becomeReady(lasting);
  if (problem !== undefined) {
    lasting.close();
    throw new UnreachableError(shown, problem);
  }
  // Each has a pool of its own, so that this one does not end up on the other's connection.
  return { lasting, short: new Channel(target, secrets, channelOptions), metadata };
}

function environmentEndpoint(): string {
  const endpoint = process.env[ENDPOINT_VARIABLE];
  return endpoint === undefined || endpoint === "" ? DEFAULT_ENDPOINT : endpoint;
}

type Useless = (problem: string, cause?: unknown) => EndpointError;

function parse(endpoint: string, useless: Useless): { target: string; secure: boolean } {
  const shape = "it must be unix:///path, http://host:port or https://host:port";
  if (/^unix:\/\/\/./.test(endpoint)) return { target: endpoint, secure: false };
  if (!/^https?:\/\/[^/]/.test(endpoint) || !URL.canParse(endpoint)) throw useless(shape);
  const { hostname, pathname, port, protocol, username } = new URL(endpoint);
  if (username !== "") throw useless("credentials do not belong there; a token is given as bearerToken");
  if (pathname !== "/") throw useless(`${shape}, without a path`);
  const secure = protocol === "https:";
  return { target: `dns:${hostname}:${port === "" ? (secure ? "443" : "80") : port}`, secure };
}

function bearer(token: string | undefined, useless: Useless): Metadata {
  const metadata = new Metadata();
  if (token === undefined) return metadata;
  try {
    metadata.set("authorization", `Bearer ${token.trim()}`);
  } catch {
    // What was caught shows the token (S20).
    throw useless("the bearer token has characters that cannot be sent");
  }
  return metadata;
}

function channelCredentials(options: ConnectOptions, secure: boolean, useless: Useless): ChannelCredentials {
  const { ca, clientCertificate } = options;
  if (!secure) {
    if (ca === undefined && clientCertificate === undefined) return credentials.createInsecure();
    throw useless("certificates were given, and only https:// makes use of them");
  }
  if (ca === undefined) throw useless("https needs the certificate authority to trust");
  const pem = (text: string | Uint8Array): Buffer => Buffer.from(text);
  try {
    if (clientCertificate === undefined) return credentials.createSsl(pem(ca));
    const { certificate, key } = clientCertificate;
    return credentials.createSsl(pem(ca), pem(key), pem(certificate));
  } catch (cause) {
    throw useless("its certificates cannot be used", cause);
  }
}

/** What is in the way of a connection; `undefined` once there is one. */
async function becomeReady(channel: Channel): Promise<string | undefined> {
  const deadline = new Date(Date.now() + CONNECT_TIMEOUT_MS);
  for (;;) {
    const state = channel.getChannel().getConnectivityState(true);
    if (state === connectivityState.READY) return undefined;
    if (state === connectivityState.TRANSIENT_FAILURE) return await lastProblem(channel, deadline);
    const changed = await new Promise<boolean>((resolve) => {
      channel.getChannel().watchConnectivityState(state, deadline, (late) => {
        resolve(late === undefined);
      });
    });
    if (!changed) return `no connection within ${String(CONNECT_TIMEOUT_MS / 1_000)} s`;
  }
}

/** Only a call is told why there is no connection: one that is sent to nobody. */
async function lastProblem(channel: Channel, deadline: Date): Promise<string> {
  const nothing = (): Buffer => Buffer.alloc(0);
  return await new Promise<string>((resolve) => {
    channel.makeUnaryRequest("/", nothing, nothing, undefined, new Metadata(), { deadline }, (error) => {
      const details = error?.details ?? "the connection failed";
      resolve(details.replace(/\.? Resolution note: $/, "").replaceAll(/\s+/g, " "));
    });
  });
}
