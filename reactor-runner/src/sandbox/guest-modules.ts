export interface GuestModuleSource {
  /** A file under `guest/modules`, or the text of an entry that names a package. */
  readonly file?: string;
  readonly contents?: string;
  /** Words in a tenant's code that make loading this module before the run worth while. */
  readonly words: readonly string[];
}

function required(name: string): readonly string[] {
  return [`'${name}'`, `"${name}"`, `\`${name}\``, `node:${name}`];
}

function fromPackage(name: string, contents = `module.exports = require('${name}')`): GuestModuleSource {
  return { contents, words: required(name) };
}

function fromFile(file: string, ...words: readonly string[]): GuestModuleSource {
  return { file, words };
}

/** What guest code can load: by `require`, or for names with `internal:` through a global. */
export const guestModules: Readonly<Record<string, GuestModuleSource>> = {
};
