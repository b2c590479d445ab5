// Writes the bill of materials of this image to stdout, as CycloneDX 1.6: Node, the packages of npm in its folders and in its
// bundles, the packages of Debian.
// It contains no time and no random number, so the same image has the same bill.
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');
const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'));
const { name, version, description } = readJson(path.join(root, 'package.json'));

/** The registry's hashes of the packages, by name@version. */
const lock = readFileSync(path.join(root, 'pnpm-lock.yaml'), 'utf8');
const integrity = new Map(
  [...lock.matchAll(/^ {2}'?(@?[^@'\s]+@[^:'\s]+)'?:\n {4}resolution: \{integrity: sha512-([^},]+)/gm)].map(
    ([, id, hash]) => [id, Buffer.from(hash, 'base64').toString('hex')],
  ),
);

function component(purl, fields) {
  return { type: 'library', 'bom-ref': purl, ...fields, purl };
}

function licences(license) {
  if (typeof license !== 'string') return {};
  const isExpression = /^[\w.+() -]+$/.test(license) && !license.startsWith('SEE ');
  return { licenses: [isExpression ? { expression: license } : { license: { name: license } }] };
}

function ofNpm({ name, version, license }) {
  const hash = integrity.get(`${name}@${version}`);
  return component(`pkg:npm/${name.replace('@', '%40')}@${version}`, {
    name,
    version,
    ...(hash && { hashes: [{ alg: 'SHA-512', content: hash }] }),
    ...licences(license),
  });
}

function ofDebian(paragraph) {
  const field = (name) => new RegExp(`^${name}: (.*)$`, 'm').exec(paragraph)?.[1];
  if (field('Status') !== 'install ok installed') return [];
  const [name, version] = [field('Package'), field('Version')];
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${field('Architecture')}&distro=bookworm`;
  return [component(purl, { name, version })];
}

const packages = globSync('node_modules/.pnpm/*/node_modules/{*,@*/*}/package.json', { cwd: root });
const bundled = globSync('.cache/*/*/packages.json', { cwd: root });
const components = [
  component(`pkg:generic/node@${process.versions.node}`, { name: 'node', version: process.versions.node }),
  ...packages.map((file) => ofNpm(readJson(path.join(root, file)))),
  ...bundled.flatMap((file) => readJson(path.join(root, file)).map(ofNpm)),
  ...readFileSync('/var/lib/dpkg/status', 'utf8').split('\n\n').flatMap(ofDebian),
];
const byReference = new Map(components.map((one) => [one['bom-ref'], one]));
const bill = {
  bomFormat: 'CycloneDX',
  specVersion: '1.6',
  version: 1,
  metadata: { component: { type: 'application', 'bom-ref': name, name, version, description } },
  components: [...byReference.keys()].sort().map((reference) => byReference.get(reference)),
};
process.stdout.write(`${JSON.stringify(bill, null, 1)}\n`);
