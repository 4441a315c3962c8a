/** As much of it as a test needs: its own types are for browsers, too. */
declare module "sql.js" {
  interface Sqlite {
    run(sql: string, values?: readonly (string | number)[]): void;
    exec(sql: string): readonly { readonly values: readonly (readonly unknown[])[] }[];
    getRowsModified(): number;
    close(): void;
  }

  export default function initSqlJs(): Promise<{ readonly Database: new () => Sqlite }>;
}
