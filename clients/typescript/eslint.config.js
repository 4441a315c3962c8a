import eslint from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist/", "gen/", "node_modules/", ".tools/"] },
  eslint.configs.recommended,
  tseslint.configs.strictTypeChecked,
  tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/explicit-module-boundary-types": "error",
      "@typescript-eslint/switch-exhaustiveness-check": "error",
      "max-lines": ["error", 400],
      "max-lines-per-function": ["error", { max: 70 }],
      "max-params": ["error", 5],
      "no-restricted-properties": [
        "error",
        { object: "process", property: "hrtime", message: "Only boot-clock.ts reads a clock (S3)." },
        { object: "process", property: "uptime", message: "Only boot-clock.ts reads a clock (S3)." },
      ],
    },
  },
  {
    files: ["test/**", "test-support/**", "samples/*.test.ts"],
    rules: {
      // node:test keeps track of its tests by itself.
      "@typescript-eslint/no-floating-promises": [
        "error",
        { allowForKnownSafeCalls: [{ from: "package", name: "test", package: "node:test" }] },
      ],
      "max-lines-per-function": "off",
    },
  },
  // The one file that reads a clock.
  { files: ["src/hold/boot-clock.ts"], rules: { "no-restricted-properties": "off" } },
  { files: ["*.js"], extends: [tseslint.configs.disableTypeChecked] },
);
