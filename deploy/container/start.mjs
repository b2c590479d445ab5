// Starts the program named by the first argument, with the secrets of /run/secrets as environment variables: one file for each variable,
// with its name. So the definition of the container contains no secret that `docker inspect` or the cluster's API would show.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const directory = process.env.VAULT_SECRETS_DIR ?? '/run/secrets';

function names() {
  try {
    return readdirSync(directory).filter((name) => /^[A-Z][A-Z0-9_]*$/.test(name));
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
}

const [program, ...rest] = process.argv.slice(2);
if (program === undefined) {
  process.stderr.write('usage: start.mjs <program> [arguments]\n');
  process.exit(1);
}
try {
  // The file overrides a variable that was inherited by accident.
  for (const name of names()) process.env[name] = readFileSync(path.join(directory, name), 'utf8').trimEnd();
} catch (error) {
  process.stderr.write(`cannot read the secrets in ${directory}: ${error.code}\n`);
  process.exit(1);
}
const file = path.resolve(program);
process.argv = [process.argv[0], file, ...rest];
await import(pathToFileURL(file).href);
