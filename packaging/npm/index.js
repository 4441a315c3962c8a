// Finds the program `leasehold` in the package of this platform, which npm installs beside this one.
"use strict";

const { accessSync, constants } = require("node:fs");

/** The path of the program. Throws an Error that says what to do when there is none. */
function programPath() {
  const platform = `${process.platform}-${process.arch}`;
  const name = `@leasehold/sidecar-${platform}`;
  let program;
  try {
    program = require.resolve(`${name}/bin/leasehold`);
  } catch (cause) {
    const known = Object.keys(require("./package.json").optionalDependencies);
    const reason = known.includes(name)
      ? `${name} is not installed; install @leasehold/sidecar again, on this platform and without --omit=optional`
      : `there is none for ${platform}, only ${known.join(", ")}; run the sidecar on Linux, such as in a container`;
    throw new Error(`the program leasehold cannot be found: ${reason}`, { cause });
  }
  accessSync(program, constants.X_OK);
  return program;
}

exports.programPath = programPath;
