import { hostname } from "node:os";

import { HOLDER_BYTES } from "../constants.js";

/** The name that is sent: the given one, or else this pod or host and the process, such as `importer-7f9c/17`. */
export function holderOrThis(given = ""): string {
  // In a pod the host's name is the pod's, unless the pod shares its host's network.
  return given === "" ? named(host(), process.pid) : given;
}

function host(): string {
  try {
    return hostname();
  } catch {
    return "";
  }
}

/** Leaves a host's name out that is not printable ASCII: the sidecar would refuse it (S19). */
export function named(host: string, pid: number): string {
  const id = String(pid);
  return /^[!-~]+$/.test(host) ? `${host.slice(0, HOLDER_BYTES - id.length - 1)}/${id}` : id;
}
