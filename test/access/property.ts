import { randomUUID } from 'node:crypto';
import type { Json } from '@token-vault/contracts';
import { direct, type Asked, type Entrance } from './entrances.ts';
import { authorRights, hiddenOf, placeholders, type Hidden, type Step } from './histories.ts';
import { createLeveller, principalIn, type Rights, type Twins } from './twins.ts';

interface Story {
  readonly steps: readonly Step[];
  /** Of the caller. */
  readonly rights: Rights;
  readonly entrance: Entrance;
}

function fill(ask: Asked, hidden: Hidden): Asked {
  const values = new Map(
    Object.entries(placeholders).map(([name, placeholder]) => [
      placeholder as string,
      hidden[name as keyof Hidden],
    ]),
  );
  const replace = (_key: string, value: unknown) => values.get(value as string) ?? value;
  return JSON.parse(JSON.stringify(ask), replace) as Asked;
}

/** All that the caller is told in the course of a history, in one tenant. Its applications are its own: limits count by them. */
async function toldIn(
  { executor }: Twins,
  tenantId: string,
  hidden: Hidden,
  { steps, rights, entrance }: Story,
): Promise<Json[]> {
  const author = principalIn(tenantId, randomUUID(), authorRights);
  const caller = principalIn(tenantId, randomUUID(), rights);
  const level = createLeveller();
  const told: Json[] = [];
  for (const step of steps) {
    if (step.by === 'author') await direct.ask(executor, author, fill(step.ask, hidden));
    else told.push(level(await entrance.ask(executor, caller, step.ask)));
  }
  return told;
}

/** A history in two tenants that differ in hidden data alone: what the caller was told in each. */
export async function toldByTwins(twins: Twins, story: Story): Promise<readonly [Json[], Json[]]> {
  const [one, other] = await twins.newPair();
  return Promise.all([toldIn(twins, one, hiddenOf[0], story), toldIn(twins, other, hiddenOf[1], story)]);
}
