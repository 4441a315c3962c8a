// Where the program `leasehold` is.

import { accessSync, constants, statSync } from "node:fs";
import path from "node:path";

/** The environment variable that names the program to start. It is no setting of the sidecar. */
export const PROGRAM_VARIABLE = "LEASEHOLD_PROGRAM";

/** The package that brings the program. */
const PACKAGE = "@leasehold/sidecar";

interface SidecarPackage {
  programPath(): string;
}

/**
 * The path of the program `leasehold`: what `LEASEHOLD_PROGRAM` names, or else that of the package `@leasehold/sidecar`, or
 * else the one in `PATH`.
 *
 * @throws Error that says where it was looked for, and how to install it.
 */
export async function findProgram(): Promise<string> {
  const named = process.env[PROGRAM_VARIABLE];
  if (named !== undefined && named !== "") {
    if (!isProgram(named)) {
      throw new Error(
        `${PROGRAM_VARIABLE} names ${named}, which is not an executable file: correct it, or unset it to use the ` +
          `package ${PACKAGE} or PATH`,
      );
    }
    return path.resolve(named);
  }
  const packaged = await packagedProgram();
  if (packaged !== undefined) return packaged;
  const folders = process.env["PATH"] ?? "";
  for (const folder of folders.split(path.delimiter).filter((one) => one !== "")) {
    const file = path.join(folder, "leasehold");
    if (isProgram(file)) return path.resolve(file);
  }
  throw new Error(
    `there is no program leasehold to start a sidecar with. Looked at: ${PROGRAM_VARIABLE} (not set), the package ` +
      `${PACKAGE} (not installed), PATH (not in ${folders}). To go on, install it by \`npm install --save-dev ${PACKAGE}\`, ` +
      `put leasehold into a folder of PATH, or set ${PROGRAM_VARIABLE} to its path`,
  );
}

async function packagedProgram(): Promise<string | undefined> {
  try {
    // By a name that the compiler does not look up: the package need not be there.
    const name: string = PACKAGE;
    const sidecar = (await import(name)) as SidecarPackage;
    return sidecar.programPath();
  } catch (error) {
    // Only that it is not there: one that is there and broken has to be told.
    if (error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
