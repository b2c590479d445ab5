import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ServerCredentials, status, type Metadata, type ServerErrorResponse } from '@grpc/grpc-js';
import type streams from '@eventstore/db-client/generated/streams_pb.js';
import { rpcError } from './wire.ts';

/** The accounts of the server, by name. Every account may write and read every stream. */
export type Accounts = Readonly<Record<string, Account>>;

interface Account {
  readonly password: string;
  /** The rights of `$admins`, and the account that the default ACL of system streams names. */
  readonly mayReadAll: boolean;
}

const certificates = path.join(import.meta.dirname, '../transit/tls');
const authorityFile = path.join(certificates, 'authority.pem');

/** A server with accounts has TLS: clients send no credentials without it. */
export function credentialsFor(accounts: Accounts | undefined): ServerCredentials {
  if (!accounts) return ServerCredentials.createInsecure();
  const [privateKey, chain] = ['server.key.pem', 'server.pem'].map((name) =>
    readFileSync(path.join(certificates, name)),
  );
  if (!privateKey || !chain) throw new Error('no certificate');
  return ServerCredentials.createSsl(null, [{ private_key: privateKey, cert_chain: chain }]);
}

export function connectionStringOf(port: number, account: string | undefined): string {
  if (account === undefined) return `esdb://127.0.0.1:${port}?tls=false`;
  return `esdb://${account}@127.0.0.1:${port}?tls=true&tlsCAFile=${encodeURIComponent(authorityFile)}`;
}

interface Call {
  readonly metadata: Metadata;
  readonly request?: { getOptions?(): streams.ReadReq.Options | undefined };
}

/** The reason why a server with these accounts refuses a call. Undefined when it accepts the call. */
export function refusalOf(
  accounts: Accounts | undefined,
  call: Call,
  method: string,
): ServerErrorResponse | undefined {
  if (!accounts) return undefined;
  const [given] = call.metadata.get('authorization').map(String);
  const account = given === undefined ? undefined : accountOf(accounts, given);
  if (given !== undefined && !account)
    return rpcError(status.UNAUTHENTICATED, 'Received HTTP status code 401');
  const isOfAll = method === 'read' && call.request?.getOptions?.()?.hasAll() === true;
  if (account && (account.mayReadAll || !isOfAll)) return undefined;
  return rpcError(status.PERMISSION_DENIED, 'Access Denied', { exception: 'access-denied' });
}

/** By Basic authentication. Undefined when the name or the password is wrong. */
function accountOf(accounts: Accounts, authorization: string): Account | undefined {
  const [name = '', password] = Buffer.from(authorization.replace(/^Basic /, ''), 'base64')
    .toString()
    .split(':');
  const account = accounts[name];
  return account?.password === password ? account : undefined;
}
