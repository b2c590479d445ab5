import { userInfo } from 'node:os';
import { ownName } from './account/account-for.ts';
import type { RunningStandalone } from './start.ts';

/** The text for the user when the vault is up: its address, the place of the first key, a first command. */
export function banner({ url, directory, credentials }: RunningStandalone): string {
  const lines = [
    `vault ready at ${url}`,
    `console: ${url}/console/`,
    `data directory: ${directory.root}`,
    `account: ${account()}`,
  ];
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

/** The account that the process has now, for good (ADR 23). */
function account(): string {
  if (process.getuid?.() === 0)
    return `root; set VAULT_ACCOUNT, or make the account ${ownName}: useradd --system ${ownName}`;
  try {
    return userInfo().username;
  } catch {
    // The host has no name for the user id.
    return `user ${process.getuid?.() ?? 'unknown'}`;
  }
}
