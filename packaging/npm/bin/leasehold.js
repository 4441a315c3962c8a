#!/usr/bin/env node
// Runs the program with the same arguments. Where Node.js can (22.15 and newer), the program takes this process's place;
// elsewhere this process waits for it, passes on signals, and ends as it ended.
"use strict";

const { spawn } = require("node:child_process");
const { isatty } = require("node:tty");
const { programPath } = require("../index.js");

// As in docs/cli.md: something outside of the configuration has to be corrected.
const MISSING = 78;

function find() {
  try {
    return programPath();
  } catch (error) {
    console.error(`leasehold: ${error.message}`);
    process.exit(MISSING);
  }
}

function beside(program, parameters) {
  const child = spawn(program, parameters, { stdio: "inherit" });
  child.on("error", (error) => {
    console.error(`leasehold: ${program} cannot be executed: ${error.message}`);
    process.exit(126);
  });
  // Not process.stdin.isTTY: that alone makes the program's input non-blocking.
  const onTerminal = [0, 1, 2].some((descriptor) => isatty(descriptor));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]) {
    // A terminal sends these to both, and a second one would end a sidecar at once.
    const sentToBoth = onTerminal && ["SIGINT", "SIGHUP", "SIGQUIT"].includes(signal);
    process.on(signal, () => sentToBoth || child.kill(signal));
  }
  child.on("exit", (code, signal) => {
    if (signal === null) {
      process.exit(code);
    }
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

const program = find();
const parameters = process.argv.slice(2);
if (typeof process.execve === "function") {
  process.execve(program, [program, ...parameters], process.env);
} else {
  beside(program, parameters);
}
