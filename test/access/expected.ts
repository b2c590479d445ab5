import { can, decideTokenAccess, type Principal } from '@token-vault/access';
import type { Json, TokenPermission, Transform } from '@token-vault/contracts';
import type { Expected } from './callers.ts';
import type { Cell } from './cells.ts';
import { card, type Hidden } from './hidden.ts';
import { containerOf, numberOf, states } from './states.ts';

const shownBy: readonly TokenPermission[] = ['token:read', 'token:search', 'token:update', 'token:delete'];

/** The answers that a caller must get by the rules of access alone. */
export class Rules {
  readonly #principal: Principal | undefined;

  constructor(expected: Expected | undefined) {
    const of = { actor: { kind: 'application', id: 'caller' }, applicationId: 'caller' } as const;
    const tenant = { id: 'tenant', plan: 'enterprise', settings: {} } as const;
    this.#principal = expected && { tenant, ...of, ...expected };
  }

  /** Undefined where no rule grants access. */
  accessTo(id: string, permission: TokenPermission): Transform | undefined {
    if (!this.#principal) return undefined;
    const token = { id, containers: [containerOf(id)] };
    const access = decideTokenAccess(this.#principal, permission, token);
    return access.isGranted ? access.transform : undefined;
  }

  /** The twins may differ for this caller. */
  seesPlaintextOf(id: string): boolean {
    return shownBy.some((permission) => this.accessTo(id, permission) === 'reveal');
  }

  /** The status of a request that names no token. */
  statusOfAsking(permission: TokenPermission): number {
    if (!this.#principal) return 401;
    return can(this.#principal, permission) ? 200 : 403;
  }

  statusOf({ permission, kind }: Cell, id: string): number {
    const asking = this.statusOfAsking(permission);
    if (asking !== 200) return asking;
    const transform = this.accessTo(id, permission);
    if (kind === 'create') return transform === undefined ? 403 : this.#statusOfCreation(id);
    const isThere = states[id]?.isThere || (kind !== 'read' && this.#isMade(id));
    if (!isThere) return 404;
    if (transform === undefined) return 403;
    if (kind === 'read') return 200;
    if (states[id]?.isLocked) return 409;
    if (kind === 'delete') return 204;
    return transform === 'reveal' ? 200 : 403;
  }

  #statusOfCreation(id: string): number {
    return states[id]?.isThere || states[id]?.isLocked ? 409 : 201;
  }

  /** Whether the cell that creates tokens under given ids made this token. */
  #isMade(id: string): boolean {
    return this.accessTo(id, 'token:create') !== undefined && this.#statusOfCreation(id) === 201;
  }

  visible(permission: TokenPermission): string[] {
    return Object.keys(states).filter((id) => states[id]?.isThere && this.accessTo(id, permission));
  }

  dataOf(id: string, permission: TokenPermission, hidden: Hidden): Json | undefined {
    const number = numberOf(id, hidden);
    const { cvc, ...rest } = card(number, hidden.cvc);
    const transform = this.accessTo(id, permission);
    if (transform === 'reveal') return states[id]?.hasCvc ? { ...rest, cvc } : rest;
    return transform === 'mask' ? { ...rest, number: `XXXXXXXXXXXX${number.slice(-4)}` } : undefined;
  }
}
