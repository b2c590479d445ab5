import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { generatedFiles } from './places.ts';

// node scripts/run.mjs node deploy/nginx/generate.ts
const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
for (const [file, content] of generatedFiles()) {
  const target = path.join(root, file);
  mkdirSync(path.dirname(target), { recursive: true });
  writeFileSync(target, content);
  process.stdout.write(`${file}\n`);
}
