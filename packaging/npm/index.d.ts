/** The path of the program `leasehold`. Throws an Error that says what to do when there is none. */
export function programPath(): string;
