import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export const openssl = spawnSync('openssl', ['version']).status === 0;

/** A self-signed certificate, as files. */
export function makeCertificate(host: string) {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'vault-certificate-'));
  const [certificate, key] = [path.join(directory, 'crt'), path.join(directory, 'key')];
  const subject = ['-subj', `/CN=${host}`, '-addext', `subjectAltName=DNS:${host}`, '-days', '1'];
  const kind = ['-nodes', '-newkey', 'rsa:2048'];
  execFileSync('openssl', ['req', '-x509', ...subject, ...kind, '-keyout', key, '-out', certificate], {
    stdio: 'ignore',
  });
  return { certificate, key, remove: () => rmSync(directory, { recursive: true, force: true }) };
}
