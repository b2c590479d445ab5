export { startGateway, type Gateway } from './gateway.ts';
export { serviceOf, type Service } from './routes.ts';
export { readGatewaySettings, type GatewaySettings } from './settings.ts';
