import {
  EntitiesRead,
  NotFoundError,
  UnavailableError,
  type Json,
  type Operation,
  type Token,
} from '@token-vault/contracts';
import type { AuditTrail } from './audit-trail.ts';
import type { Answer, Path } from './handlers.ts';
import type { ApplicationReplay, Repeating, StoredToken, TokenReplay } from './idempotency.ts';
import type { FindEntity } from './refusals.ts';
import type { RequestContext } from './request-context.ts';

export interface RepeatDependencies {
  readonly audit: AuditTrail;
  readonly tokenReplay?: TokenReplay | undefined;
  readonly applicationReplay?: ApplicationReplay | undefined;
  readonly findEntity?: FindEntity | undefined;
  /** The read models show what the first request wrote. */
  readonly isVisible: (answer: Answer) => Promise<boolean>;
}

type Place = Record<string | number, unknown>;

/** Puts tokens where the body had them; places within it are objects and arrays of its own. */
export function putTokens(body: unknown, places: readonly (readonly [Path, Token])[]): unknown {
  const root: Place = { body };
  for (const [path, token] of places) {
    const steps: (string | number)[] = ['body', ...path];
    const last = steps.pop() ?? 'body';
    let place = root;
    for (const step of steps) place = place[step] as Place;
    place[last] = token;
  }
  return root.body;
}

/** The id of what the answer is about: made by the vault, or in the path of a request that succeeded. */
function entityIdOf(answer: Answer, params: unknown, context: RequestContext, operation: Operation) {
  if (operation.entity === 'tenant') return context.principal.tenant.id;
  const id = (answer.body as { id?: Json } | undefined)?.id ?? (params as { id?: Json } | undefined)?.id;
  return typeof id === 'string' ? id : undefined;
}

const foundInReadModels: ReadonlySet<string> = new Set(['application', 'reactor']);

/** What is judged anew when an answer is shown again: it must still be there, and its reading is recorded. */
async function readAgain(
  { audit, applicationReplay, findEntity, isVisible }: RepeatDependencies,
  operation: Operation,
  answer: Answer,
  entityId: string | undefined,
  context: RequestContext,
): Promise<void> {
  const { entity } = operation;
  if (entityId !== undefined && findEntity && foundInReadModels.has(entity)) {
    if (!(await isVisible(answer)))
      throw new UnavailableError('The read models do not show the first request yet.');
    if (!(await findEntity(context.principal.tenant.id, entity, entityId)))
      throw new NotFoundError('What the first request answered with');
  }
  if (entityId !== undefined && entity === 'application') await applicationReplay?.require(entityId, context);
  const entity_ids = entityId === undefined ? [] : [entityId];
  await audit.record(context, EntitiesRead, { entity_type: entity, operation: 'read', entity_ids });
}

/**
 * A repeat of a request is an access of its own: the caller is authorised for the operation before, and here for what the answer
 * holds; it is recorded before it leaves (rules.md §2).
 */
export function createRepeating(
  dependencies: RepeatDependencies,
  operation: Operation,
  params: unknown,
  context: RequestContext,
): Repeating {
  const { tokenReplay } = dependencies;
  const requireTokens = (): TokenReplay => {
    if (!tokenReplay) throw new UnavailableError('Tokens of stored answers are not available here.');
    return tokenReplay;
  };

  async function showTokens(answer: Answer, tokens: readonly StoredToken[]): Promise<Answer> {
    const shown = await requireTokens().show(tokens, context);
    const places = tokens.flatMap(({ at }, index) => {
      const token = shown[index];
      return at && token ? [[at, token] as const] : [];
    });
    return { ...answer, body: putTokens(answer.body, places) };
  }

  return {
    facts: (ids) => requireTokens().facts(ids, context),
    async show(answer, tokens) {
      if (operation.entity !== 'token' || tokens.length === 0) {
        const entityId = entityIdOf(answer, params, context, operation);
        await readAgain(dependencies, operation, answer, entityId, context);
      }
      return tokens.length === 0 ? answer : showTokens(answer, tokens);
    },
  };
}
