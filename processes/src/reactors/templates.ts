import { descriptions, ValidationError, type Json, type OperationId } from '@token-vault/contracts';
import { ExpressionSyntaxError, findTokenReferences, quoteExpressions } from '@token-vault/expressions';
import { WrittenExpressions, type RunOutput, type ServiceRequest } from '@token-vault/reactor-runner';

/** A request of code whose texts are expressions only where the code may have written them. */
export interface Prepared extends ServiceRequest {
  /** The tokens that the expressions name. */
  readonly named: readonly string[];
  /** Whether the operation itself evaluates expressions with filters, whose errors reveal something about data. A run evaluates its arguments later. */
  readonly isGuess: boolean;
}

const objectOf = (value: Json | undefined): Record<string, Json> | undefined =>
  value !== null && typeof value === 'object' && !Array.isArray(value) ? value : undefined;

/** The part of the body in which expressions are replaced by data of tokens; undefined in other operations. */
function templateIn(operation: OperationId, body: Json | undefined): Json | undefined {
  if (operation === 'detokenize') return body;
  return operation === 'react' ? objectOf(body)?.['args'] : undefined;
}

const noExpressions = new WrittenExpressions([]);
const nothingNamed = { named: [], isGuess: false } as const;

/** The operation reads the references again and refuses the request with its own message. */
function namedIn(operation: OperationId, template: Json): Pick<Prepared, 'named' | 'isGuess'> {
  try {
    const { tokens, hasFilters } = findTokenReferences(template);
    return { named: [...tokens.keys()], isGuess: hasFilters && operation === 'detokenize' };
  } catch (error) {
    if (error instanceof ExpressionSyntaxError) return nothingNamed;
    throw error;
  }
}

function quotedIn(template: Json): Json {
  try {
    return quoteExpressions(template);
  } catch (error) {
    throw error instanceof ExpressionSyntaxError ? ValidationError.of('args', error.message) : error;
  }
}

/** The fields of a token whose texts are expressions. The id can be one, too. */
const expressionFields = new Set(['id', ...descriptions]);

function mapTexts(value: Json, change: (text: string) => string): Json {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((each) => mapTexts(each, change));
  const object = objectOf(value);
  if (object === undefined) return value;
  return Object.fromEntries(Object.entries(object).map(([name, each]) => [name, mapTexts(each, change)]));
}

/** The fields of one token, with expressions that the code did not write as text. Data is no expression. */
function quotedFields(fields: Record<string, Json>, written: WrittenExpressions): Json {
  const quoted = (name: string, value: Json) =>
    expressionFields.has(name) ? mapTexts(value, (text) => written.inField(name, text)) : value;
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, quoted(name, value)]));
}

/** `quotedFields` of each token in the body of an operation that makes tokens. */
function quotedTokens(body: Json, written: WrittenExpressions): Json {
  if (Array.isArray(body)) return body.map((each) => quotedTokens(each, written));
  const object = objectOf(body);
  if (object === undefined) return body;
  if (Object.hasOwn(object, 'type') && Object.hasOwn(object, 'data')) return quotedFields(object, written);
  return Object.fromEntries(
    Object.entries(object).map(([name, value]) => [name, quotedTokens(value, written)]),
  );
}

const makesTokens: ReadonlySet<OperationId> = new Set(['createToken', 'createTokens', 'tokenize']);

/** The body of a request with the descriptions and ids of its tokens. */
function quotedDescriptions({ operation, body }: ServiceRequest, written: WrittenExpressions) {
  if (body !== undefined && makesTokens.has(operation)) return { body: quotedTokens(body, written) };
  const fields = operation === 'updateToken' ? objectOf(body) : undefined;
  return fields && { body: quotedFields(fields, written) };
}

/** The request that makes the tokens of an output. */
export function prepareOutput({ payload, written = noExpressions }: RunOutput): Prepared {
  return { operation: 'tokenize', body: quotedTokens(payload, written), ...nothingNamed };
}

/**
 * Expressions in a request of code are evaluated by the rights of its application. A text of the request may come from the caller, from a
 * token or from another server, whose authors do not have these rights. So the texts of code that writes no expressions are passed on as
 * data, and the tokens that expressions of other code name are those that the callers of the run may use, too (ADR 51).
 * @throws ValidationError
 */
export function prepareTemplate(request: ServiceRequest): Prepared {
  const { operation, body, written = noExpressions } = request;
  const template = templateIn(operation, body);
  if (template === undefined) return { ...request, ...nothingNamed, ...quotedDescriptions(request, written) };
  if (written.areInTemplates) return { ...request, ...namedIn(operation, template) };
  const data = quotedIn(template);
  const quoted = operation === 'react' ? { ...objectOf(body), args: data } : data;
  return { ...request, ...nothingNamed, body: quoted };
}
