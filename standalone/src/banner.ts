import type { RunningStandalone } from './start.ts';

/** What a person sees when the vault is up: where it is, where the first key is, what to try. */
export function banner({ url, directory, credentials }: RunningStandalone): string {
  const lines = [`vault ready at ${url}`, `data directory: ${directory.root}`];
  if (credentials) {
    lines.push(
      `first key (management): ${directory.credentialsFile}`,
      '',
      'Try it: make an application that may create and read tokens',
      `  KEY=$(sed -n 's/.*"management_key": "\\(.*\\)".*/\\1/p' ${directory.credentialsFile})`,
      `  curl -s ${url}/applications -H "SVC-API-KEY: $KEY" -H 'Content-Type: application/json' \\`,
      `    -d '{"name":"backend","type":"private","permissions":["token:create","token:read"]}'`,
      '',
      'Then keep the key somewhere safe and delete the file.',
    );
  }
  return `${lines.join('\n')}\n`;
}
