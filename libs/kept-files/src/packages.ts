import { readFile } from 'node:fs/promises';
import path from 'node:path';

interface Package {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
}

/** The packages of npm that files belong to, each once. */
export async function packagesOf(files: readonly string[]): Promise<Package[]> {
  const manifests = new Set(files.map(manifestOf).filter((manifest) => manifest !== undefined));
  return Promise.all(
    [...manifests].sort().map(async (manifest) => {
      const { name, version, license } = JSON.parse(await readFile(manifest, 'utf8')) as Package;
      return { name, version, ...(license !== undefined && { license }) };
    }),
  );
}

const marker = '/node_modules/';

function manifestOf(file: string): string | undefined {
  const at = file.lastIndexOf(marker);
  if (at < 0) return undefined;
  const parts = file.slice(at + marker.length).split(path.sep);
  const name = parts.slice(0, parts[0]?.startsWith('@') ? 2 : 1);
  return path.join(file.slice(0, at + marker.length), ...name, 'package.json');
}
