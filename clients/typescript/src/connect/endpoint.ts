// Where the sidecar is, and how to get there.

import type { ChannelCredentials, ClientOptions, Interceptor } from "@grpc/grpc-js";
import { Client as Channel, InterceptingCall, Metadata, credentials, status } from "@grpc/grpc-js";

import { DEFAULT_KEEP_ALIVE_MS, PING_TIMEOUT_MS, SHORTEST_KEEP_ALIVE_MS } from "../constants.js";
import { EndpointError } from "../errors/errors.js";

/** Where a sidecar listens unless told otherwise. */
export const DEFAULT_ENDPOINT = "http://127.0.0.1:50951";

/** The environment variable that says where the sidecar is. */
export const ENDPOINT_VARIABLE = "LEASEHOLD_ENDPOINT";

/** Which certificate authorities to trust, and which certificate to show; PEM. */
export interface TlsCredentials {
  /** The certificate authorities to trust, and no others: the system's are not trusted. */
  readonly ca: string | Uint8Array;
  /** Shown to a sidecar that asks for a certificate. */
  readonly clientCertificate?: ClientCertificate | undefined;
}

/** A certificate to show, and its key; PEM. */
export interface ClientCertificate {
  /** The certificate, and those between it and its authority. */
  readonly certificate: string | Uint8Array;
  /** Its private key. */
  readonly key: string | Uint8Array;
}

/** How to reach a sidecar. */
export interface ConnectOptions {
  /** `unix:///path`, `http://host:port` or `https://host:port`. Default: `LEASEHOLD_ENDPOINT`, else loopback. */
  readonly endpoint?: string;
  /** The certificate authorities to trust (PEM). Needed with `https`: the system's are not trusted. */
  readonly ca?: string | Uint8Array;
  /** Shown to a sidecar that asks for a certificate (PEM); with `https` only. */
  readonly clientCertificate?: ClientCertificate;
  /** Instead of `ca` and `clientCertificate`: called before each new connection, for certificates that change. */
  readonly tls?: () => TlsCredentials;
  /** The name that the sidecar's certificate must have. Default: the host of the endpoint. */
  readonly serverName?: string;
  /**
   * Sends `authorization: Bearer …` with each call, to a sidecar that asks for a token. A function is called for each
   * call; when it fails, the call fails with `UNAUTHENTICATED`.
   */
  readonly bearerToken?: string | (() => string | Promise<string>);
  /**
   * How often an HTTP/2 ping tests each connection: 10,000 or more, or `false` for never. One that is not answered
   * within 10 s closes the connection. Default: 30,000, and never for a sidecar on this machine (`unix://`, `localhost`,
   * `127.0.0.0/8`, `::1`), which would read the closed connection as the end of this process.
   */
  readonly keepAliveMs?: number | false;
  /**
   * How long a release waits for the sidecar's answer, more than 0. Not longer than the process has until it is killed
   * after SIGTERM: by default Kubernetes gives it 30 s. Default: 10,000.
   */
  readonly releaseTimeoutMs?: number;
  /** Interceptors of `@grpc/grpc-js` for all calls, for tracing and metrics. The first is the outermost. */
  readonly interceptors?: readonly Interceptor[];
}

// No retries but the resume (S16), whose pace the backoff has. No proxy: the sidecar is a neighbour. A pool of its own
// for each channel, so that each has a connection of its own.
const CHANNEL_OPTIONS: ClientOptions = {
  "grpc.enable_http_proxy": 0,
  "grpc.enable_retries": 0,
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 250,
  "grpc.service_config_disable_resolution": 1,
  "grpc.use_local_subchannel_pool": 1,
};

/** Makes channels, each with a connection of its own, which is made when the first call is. */
export interface Dialer {
  /** The endpoint as people may see it. */
  readonly shown: string;
  /** Whether calls are encrypted. */
  readonly secure: boolean;
  /** Whether a new connection may need other certificates than the last. */
  readonly reloads: boolean;
  /** @throws EndpointError when the certificates cannot be used. */
  readonly dial: () => Channel;
  /** What goes with each call. */
  readonly metadata: Metadata;
  /** Those of each channel. */
  readonly channelOptions: ClientOptions;
}

/**
 * Understands the options.
 *
 * @throws EndpointError when one is invalid.
 */
export function dialer(options: ConnectOptions): Dialer {
  const endpoint = options.endpoint ?? environmentEndpoint();
  const shown = endpoint.replace(/\/\/[^/@]*@/, "//…@");
  const invalid = (problem: string, cause?: unknown): EndpointError => new EndpointError(shown, problem, { cause });
  const { target, secure, local } = parse(endpoint, invalid);
  const { bearerToken, interceptors = [], releaseTimeoutMs, serverName } = options;
  if (releaseTimeoutMs !== undefined && !(releaseTimeoutMs > 0)) throw invalid("releaseTimeoutMs must be more than 0");
  const metadata = typeof bearerToken === "string" ? bearer(bearerToken, invalid) : new Metadata();
  const authorizers = typeof bearerToken === "function" ? [authorizer(bearerToken)] : [];
  const channelOptions: ClientOptions = {
    ...CHANNEL_OPTIONS,
    ...keepAlive(options, local, invalid),
    interceptors: [...interceptors, ...authorizers],
  };
  if (serverName !== undefined) {
    channelOptions["grpc.ssl_target_name_override"] = serverName;
    channelOptions["grpc.default_authority"] = serverName;
  }
  const tls = tlsSource(options, secure, invalid);
  const dial = (): Channel => {
    const secrets = tls === undefined ? credentials.createInsecure() : secureCredentials(tls, invalid);
    return new Channel(target, secrets, channelOptions);
  };
  return { shown, secure, reloads: options.tls !== undefined, dial, metadata, channelOptions };
}

function environmentEndpoint(): string {
  const endpoint = process.env[ENDPOINT_VARIABLE];
  return endpoint === undefined || endpoint === "" ? DEFAULT_ENDPOINT : endpoint;
}

type Invalid = (problem: string, cause?: unknown) => EndpointError;

function parse(endpoint: string, invalid: Invalid): { target: string; secure: boolean; local: boolean } {
  const shape = "it must be unix:///path, http://host:port or https://host:port";
  if (/^unix:\/\/\/./.test(endpoint)) return { target: endpoint, secure: false, local: true };
  if (!/^https?:\/\/[^/]/.test(endpoint) || !URL.canParse(endpoint)) throw invalid(shape);
  const { hostname, pathname, port, protocol, username } = new URL(endpoint);
  if (username !== "") throw invalid("credentials do not belong there; a token is given as bearerToken");
  if (pathname !== "/") throw invalid(`${shape}, without a path`);
  const secure = protocol === "https:";
  const local = /^(localhost|127(\.\d+){3}|\[::1\])$/i.test(hostname);
  return { target: `dns:${hostname}:${port === "" ? (secure ? "443" : "80") : port}`, secure, local };
}

function bearer(token: string, invalid: Invalid): Metadata {
  const metadata = new Metadata();
  try {
    metadata.set("authorization", authorization(token));
  } catch (error) {
    throw invalid((error as Error).message);
  }
  return metadata;
}

/** The credentials of each new connection; `undefined` without encryption. */
function tlsSource(options: ConnectOptions, secure: boolean, invalid: Invalid): (() => TlsCredentials) | undefined {
  const { ca, clientCertificate, tls } = options;
  if (!secure) {
    if (ca === undefined && clientCertificate === undefined && tls === undefined) return undefined;
    throw invalid("certificates were given, and only https:// uses them");
  }
  if (tls !== undefined) return tls;
  if (ca === undefined) throw invalid("https needs the certificate authority to trust");
  return () => ({ ca, clientCertificate });
}

function secureCredentials(tls: () => TlsCredentials, invalid: Invalid): ChannelCredentials {
  const pem = (text: string | Uint8Array): Buffer => Buffer.from(text);
  try {
    const { ca, clientCertificate } = tls();
    if (clientCertificate === undefined) return credentials.createSsl(pem(ca));
    const { certificate, key } = clientCertificate;
    return credentials.createSsl(pem(ca), pem(key), pem(certificate));
  } catch (cause) {
    throw invalid("its certificates cannot be used", cause);
  }
}

function keepAlive({ keepAliveMs }: ConnectOptions, local: boolean, invalid: Invalid): ClientOptions {
  // S14, S21: a sidecar on the same machine would read the closed connection as the end of this process.
  const interval = keepAliveMs ?? (local ? false : DEFAULT_KEEP_ALIVE_MS);
  if (interval === false) return {};
  if (!(interval >= SHORTEST_KEEP_ALIVE_MS)) throw invalid("keepAliveMs must be 10,000 or more, or false");
  return {
    "grpc.keepalive_time_ms": interval,
    "grpc.keepalive_timeout_ms": PING_TIMEOUT_MS,
    "grpc.keepalive_permit_without_calls": 1,
  };
}

/** Puts a fresh token into each call. */
function authorizer(token: () => string | Promise<string>): Interceptor {
  return (options, nextCall) => {
    let cancelled = false;
    const call = nextCall(options);
    return new InterceptingCall(call, {
      start: (metadata, listener, next) => {
        const fail = (code: status, details: string): void => {
          listener.onReceiveStatus({ code, details, metadata: new Metadata() });
          // It was not begun, and would wait for its deadline.
          call.cancelWithStatus(code, details);
        };
        const send = (text: string): void => {
          if (cancelled) return;
          metadata.set("authorization", authorization(text));
          next(metadata, listener);
        };
        // Not a throw of the function itself, either.
        Promise.resolve()
          .then(token)
          .then(send)
          .catch((error: unknown) => {
            const why = error instanceof Error ? error.message : String(error);
            fail(status.UNAUTHENTICATED, `there is no bearer token: ${why}`);
          });
      },
      cancel: (next) => {
        cancelled = true;
        next();
      },
    });
  };
}

/** @throws Error when it cannot be sent; does not show it (S20). */
function authorization(token: string): string {
  const sent = token.trim();
  if (!/^[!-~]+$/.test(sent)) throw new Error("the bearer token is empty or has characters that cannot be sent");
  return `Bearer ${sent}`;
}
