export { createOpenApiDocument, type OpenApiOptions } from './document.ts';
export type {
  JsonSchema,
  OpenApiContent,
  OpenApiDocument,
  OpenApiOperation,
  OpenApiResponse,
} from './types.ts';
