import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parseAllDocuments } from 'yaml';

export const root = path.resolve(import.meta.dirname, '../..');

/** A file of the repository, by its path from the root. */
export const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');

/** The documents of a YAML file, anchors and merges resolved. @throws Error when it is not YAML */
export function readYaml<Content>(text: string): Content[] {
  return parseAllDocuments(text, { merge: true }).map((document) => {
    if (document.errors[0]) throw document.errors[0];
    return document.toJS() as Content;
  });
}

const sources = (): string[] =>
  globSync(['*/src/**/*.ts', 'libs/*/src/**/*.ts'], { cwd: root }).filter(
    (file) => !file.includes('node_modules'),
  );

let sourceText: string | undefined;
/** The vault's own source code. */
export const allSources = (): string => (sourceText ??= sources().map(read).join('\n'));

const settingPattern = /\b(?:VAULT|KAFKA|OTEL|EVENT|EVENTSTOREDB|INVOCATION|DATABASE)_[A-Z][A-Z_]*[A-Z]\b/g;

/** Names of settings that the code reads and the reference describes. */
export function knownSettings(): ReadonlySet<string> {
  const reference = 'docs/reference/configuration.md';
  const code = new Set(allSources().match(settingPattern));
  if (!existsSync(path.join(root, reference))) return code;
  const described = new Set(read(reference).match(settingPattern));
  return new Set([...described].filter((name) => code.has(name)));
}

/** Variables of Node, its packages or the container itself; not settings of the vault. */
export const foreignSettings: ReadonlySet<string> = new Set(['NODE_ENV', 'KAFKAJS_NO_PARTITIONER_WARNING']);

/** The body limit in the source of the services, which do not export it. */
export const bodyLimitBytes = ((): number => {
  const product = /bodyLimitBytes = (\d+) \* (\d+);/.exec(read('libs/http/src/body.ts'));
  if (!product) throw new Error('the limit of bodies is not where it was');
  return Number(product[1]) * Number(product[2]);
})();
