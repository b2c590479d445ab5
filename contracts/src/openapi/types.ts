/** A JSON Schema of the 2020-12 draft, which OpenAPI 3.1 uses. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export interface OpenApiDocument {
  readonly openapi: '3.1.1';
  readonly info: Readonly<Record<string, unknown>>;
  readonly servers: readonly { readonly url: string }[];
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  /** Path → method (lower case) → operation. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>;
  readonly components: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

export interface OpenApiOperation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly parameters: readonly Readonly<Record<string, unknown>>[];
  readonly requestBody?: OpenApiBody;
  /** Responses by status, or `default`. */
  readonly responses: Readonly<Record<string, OpenApiResponse>>;
}

export interface OpenApiContent {
  readonly content: Readonly<
    Record<string, { readonly schema: JsonSchema; readonly examples?: Readonly<Record<string, unknown>> }>
  >;
}

export interface OpenApiBody extends OpenApiContent {
  readonly required: boolean;
}

export type OpenApiResponse =
  | { readonly $ref: string }
  | ({
      readonly description: string;
      readonly headers: Readonly<Record<string, unknown>>;
    } & Partial<OpenApiContent>);
