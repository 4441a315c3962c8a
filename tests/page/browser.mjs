// The browser that the page's tests look with.

import { createRequire } from "node:module";
import { join } from "node:path";
import { PATIENCE, root } from "./processes.mjs";

export * from "./processes.mjs";

const require = createRequire(join(root, ".tools/package.json"));
const { chromium } = require("playwright-core");
const axe = require.resolve("axe-core/axe.min.js");

let browser;

/** A window at an address; whatever the page's scripts complain of is kept. */
export async function open(address, options = {}) {
  browser ??= await chromium.launch({ executablePath: process.env.LEASEHOLD_TEST_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.complaints = [];
  page.on("console", (message) => {
    if (message.type() === "error") page.complaints.push(message.text());
  });
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  await page.goto(address);
  return page;
}

export const close = () => browser?.close();

/** What axe finds wrong that is serious. */
export async function axeFinds(page) {
  // Evaluated by the debugger, which the page's policy does not bind.
  const { readFileSync } = await import("node:fs");
  await page.evaluate(readFileSync(axe, "utf8"));
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return grave.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}
