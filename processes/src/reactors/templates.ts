import { descriptions, ValidationError, type Json, type OperationId } from '@token-vault/contracts';
import { ExpressionSyntaxError, findTokenReferences, quoteExpressions } from '@token-vault/expressions';
import type { RunOutput, ServiceRequest } from '@token-vault/reactor-runner';

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

/** Outputs and tags of Liquid as text that shows them. */
function asText(value: Json): Json {
  if (typeof value === 'string') return value.replaceAll(/\{[{%]/g, (opening) => `{{ '${opening}' }}`);
  if (Array.isArray(value)) return value.map(asText);
  const object = objectOf(value);
  if (object === undefined) return value;
  return Object.fromEntries(Object.entries(object).map(([name, each]) => [name, asText(each)]));
}

/** The payload of `POST /tokenize` with the expressions of its tokens as text. Data is no expression. */
function quotedTokens(payload: Json): Json {
  if (Array.isArray(payload)) return payload.map(quotedTokens);
  const object = objectOf(payload);
  if (object === undefined) return payload;
  const isToken = Object.hasOwn(object, 'type') && Object.hasOwn(object, 'data');
  const quoted = (name: string, value: Json): Json => {
    if (!isToken) return quotedTokens(value);
    return expressionFields.has(name) ? asText(value) : value;
  };
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, quoted(name, value)]));
}

/** The request that makes the tokens of an output. Texts that code passes on are no expressions there either (ADR 51). @throws ValidationError */
export function prepareOutput({ payload, writesExpressions = false }: RunOutput): Prepared {
  const body = writesExpressions ? payload : quotedTokens(payload);
  return { operation: 'tokenize', body, ...nothingNamed };
}

/**
 * Expressions in a request of code are evaluated by the rights of its application. A text of the request may come from the caller, from a
 * token or from another server, whose authors do not have these rights. So the texts of code that writes no expressions are passed on as
 * data, and the tokens that expressions of other code name are those that the callers of the run may use, too (ADR 51).
 * @throws ValidationError
 */
export function prepareTemplate(request: ServiceRequest): Prepared {
  const { operation, body, writesExpressions = false } = request;
  const template = templateIn(operation, body);
  if (template === undefined) return { ...request, ...nothingNamed };
  if (writesExpressions) return { ...request, ...namedIn(operation, template) };
  const data = quotedIn(template);
  const quoted = operation === 'react' ? { ...objectOf(body), args: data } : data;
  return { ...request, ...nothingNamed, body: quoted };
}
